# A swap on a GPU that has none.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:alignment_rules
/\.name = "gfx90a"/,/\}/s/DMA_GEN_BROADCAST/DMA_GEN_SWAP | DMA_GEN_BROADCAST/
