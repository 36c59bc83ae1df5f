# DONE is signalled before all reads have ended.
# file: ompi_coll_dma/plan/host_cross.c
# build: plain
# tests: test_plans:every_variant
/dma_build_wait\(&b, 0, dma_flag_pair\(DMA_FLAG_LANDED/s/, 1\);/, 0);/
