# A read pointer beyond the write pointer is believed.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:nonsense_from_the_engine
s/now > ring->published \|\| //
