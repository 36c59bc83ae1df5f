# A peer's block is read before the peer has entered.
# file: ompi_coll_dma/plan/host_pair.c
# build: plain
# tests: test_plans:every_variant
/^static void build_consumer/,/^}/s/dma_flag\(DMA_FLAG_ENTRY, p\), 1\)/dma_flag(DMA_FLAG_ENTRY, p), 0)/
