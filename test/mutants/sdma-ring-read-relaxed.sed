# Packets are built over those that are being fetched.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: thread
# tests: test_sdma_ring:beside_an_engine
/load_n\(ring->mem\.read_ptr, __ATOMIC_ACQUIRE/s/ACQUIRE/RELAXED/
