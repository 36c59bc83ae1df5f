# Copies that need each other are not kept apart. Both of what a drain is made of must go: an engine that is emulated holds
# what follows a fence back. That a drain has both is for unit tests.
# file: ompi_coll_dma/engine/sdma/shaped.c
# run: sweep device 2 mi250x --mca coll_dma_gpu_variant swap
s/dma_packet_fence\(p, queue->step_addr, step\)/(p[0] = p[1] = p[2] = p[3] = 0, DMA_PACKET_FENCE_DWORDS)/
s/DMA_PACKET_EQUAL, step, UINT32_MAX/DMA_PACKET_EQUAL, 0, 0/
