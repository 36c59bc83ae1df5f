# Packets run over the end of the ring.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:pads_at_the_end
s/at \+ bytes > ring->mem\.bytes \?/at > ring->mem.bytes ?/
