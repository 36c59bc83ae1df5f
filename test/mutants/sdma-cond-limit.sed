# A conditional covers more than it can say.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:what_cannot_be_said
s/dwords > DMA_PACKET_COND_MAX/dwords > 0x7fff/
