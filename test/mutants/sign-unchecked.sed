# Ranks that disagree about the bytes are not told.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_errors:unequal_bytes
s/d->sign != run->sign, 0/false, 0/
