# A rank that cannot read its peers keeps it to itself.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_reach:refused
s/run->sign \| run->tells/run->sign/
