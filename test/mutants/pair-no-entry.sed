# A peer's buffers are read before it has entered.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
/^    dma_build_wait\(b, 0, dma_flag\(DMA_FLAG_ENTRY, p\)/s/, 1\);/, 0);/
