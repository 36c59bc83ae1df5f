# A run ends when one of its programs is still at work.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_threads:blocking
s/return run->live \? DMA_AGAIN/return run->live > 1 ? DMA_AGAIN/
