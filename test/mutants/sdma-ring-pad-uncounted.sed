# The pad at the end is not counted.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:fuzz
s/reserved \+ pad \+ bytes/reserved + bytes/
