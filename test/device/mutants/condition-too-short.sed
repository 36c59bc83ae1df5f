# A program that is given up leaves its last packet.
# file: ompi_coll_dma/engine/sdma/arm.c
# run: sweep device 4 mi300x --mca coll_dma_armed_seconds 0.001
s/dma_packet_cond\(p, queue->go_addr, 1, dwords\)/dma_packet_cond(p, queue->go_addr, 1, dwords - DMA_PACKET_FENCE_DWORDS)/
