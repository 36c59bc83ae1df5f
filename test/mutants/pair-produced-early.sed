# A pair's buffer is read one trip before it has been filled.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/(DMA_FLAG_PAIR_PRODUCED, p, rank\)), 1\)/\1, 0)/
