# The pad at the end is not cleared.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:pads_at_the_end test_sdma_ring:fuzz
/memset\(ring/d
