# The own block is copied into a peer's place.
# file: ompi_coll_dma/plan/host/pipe.c
# build: plain
# tests: test_plans:every_variant
s/dma_at\(DMA_BASE_RECV, rank, rank\)/dma_at(DMA_BASE_RECV, rank, 0)/
