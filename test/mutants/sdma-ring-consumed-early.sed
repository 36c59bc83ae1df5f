# Consumed is said one packet early.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:nothing_is_told_before_publish
s/ring->read >= position/ring->read + 4 >= position/
