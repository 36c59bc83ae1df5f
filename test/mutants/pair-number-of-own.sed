# The number in a place is that of the own block.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/dma_at\(DMA_BASE_BYTES, rank, p\)/dma_at(DMA_BASE_BYTES, rank, rank)/
