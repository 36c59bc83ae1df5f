# The line of a program that was given up is written all the same.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:given_up test_sdma_arm:packets
s/dma_packet_cond\(p, queue->go_addr, 1, dwords\)/dma_packet_cond(p, queue->go_addr, 1, dwords - DMA_PACKET_FENCE_DWORDS)/
