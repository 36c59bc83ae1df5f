# Two half swaps move a block faster than their link can carry it.
# file: ompi_coll_dma/plan/gpu/cost.c
# build: plain
# tests: test_gpu_cost:bytes_per_engine_and_link
s/return dma_wide_max\(one \* chain, link\);/return one * chain;/
