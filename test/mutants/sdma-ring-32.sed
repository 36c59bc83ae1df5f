# The write pointer wraps at 32 bits.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:fuzz
s/write_ptr, ring->published/write_ptr, (uint32_t)ring->published/
