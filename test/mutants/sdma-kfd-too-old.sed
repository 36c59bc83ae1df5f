# An old kernel is taken for one that can name engines.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:too_old
s/version\.minor >= DMA_KFD_BY_ENG_MINOR/true/
