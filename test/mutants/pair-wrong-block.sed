# A chunk of a peer goes into the own block.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/dma_at\(DMA_BASE_RECV, rank, p\), dma_at\(DMA_BASE_PAIR/dma_at(DMA_BASE_RECV, rank, rank), dma_at(DMA_BASE_PAIR/
