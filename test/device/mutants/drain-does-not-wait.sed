# Copies that need each other are not kept apart.
# file: ompi_coll_dma/engine/sdma/lower.c
# run: sweep device 2 mi250x --mca coll_dma_gpu_variant swap -x EMU_DELAY_US=2000
s/DMA_PACKET_EQUAL, step, UINT32_MAX/DMA_PACKET_EQUAL, 0, 0/
