# The doorbell rings without a write pointer.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:nothing_is_told_before_publish
/store_n\(ring->mem\.write_ptr/d
