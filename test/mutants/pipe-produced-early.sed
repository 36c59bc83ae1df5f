# A consumer reads a chunk one trip before it has been produced.
# file: ompi_coll_dma/plan/host/pipe.c
# build: plain
# tests: test_plans:every_variant
/DMA_OP_CHUNKED, dma_flag\(DMA_FLAG_PRODUCED, p\), 1/s/, 1\)/, 0)/
