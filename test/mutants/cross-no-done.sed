# A rank leaves while peers still read its send buffer.
# file: ompi_coll_dma/plan/host_cross.c
# build: plain
# tests: test_plans:every_variant
/dma_build_wait\(&b, 0, dma_flag\(DMA_FLAG_DONE/s/, 1\);/, 0);/
