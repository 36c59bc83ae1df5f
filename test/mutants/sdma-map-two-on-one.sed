# Two ranks of one remote GPU take two engines.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:ranks_on_one_gpu
s/ && first_on\(m, rank\) == rank//
