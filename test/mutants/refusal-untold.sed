# A rank that cannot read its peers keeps it to itself.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:refused
s/run->sign \| run->sign_flags/run->sign/
