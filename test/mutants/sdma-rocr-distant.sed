# Memory is that of the first CPU, not of the nearest.
# file: ompi_coll_dma/engine/sdma/rocr.c
# build: plain
# tests: test_sdma_kfd:pools
s/&& nearest\.handle\)/\&\& false)/
