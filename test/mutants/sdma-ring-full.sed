# A full ring looks empty.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:full_is_strictly_less test_sdma_ring:fuzz
s/read < ring->mem\.bytes/read <= ring->mem.bytes/
