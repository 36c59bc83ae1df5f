# A start that was given up is taken for one by the engines.
# file: ompi_coll_dma/engine/sdma/lower.c
# build: plain
# tests: test_sdma_arm:packets test_sdma_lower:waits
/to->ready\[peer\]/s/DMA_PACKET_EQUAL/DMA_PACKET_AT_LEAST/
