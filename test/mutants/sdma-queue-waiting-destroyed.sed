# A queue that waits is destroyed.
# file: ompi_coll_dma/engine/sdma/queue.c
# build: plain
# tests: test_sdma_kfd:still_waiting
s/dma_ring_idle\(&queue->ring\) == DMA_AGAIN/false/
