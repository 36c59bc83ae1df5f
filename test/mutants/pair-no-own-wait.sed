# In place, a chunk is overwritten before our own has left.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
/dma_build_wait.*DMA_FLAG_PAIR_PRODUCED, rank, p\)/s/, 1\);/, 0);/
