# The write pointer overtakes the packets.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: thread
# tests: test_sdma_ring:beside_an_engine
/store_n\(ring->mem\.write_ptr/s/RELEASE/RELAXED/
