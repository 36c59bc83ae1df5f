# Ranks on one GPU wait on its engines.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:ranks_on_one_gpu
s/!shared && //
