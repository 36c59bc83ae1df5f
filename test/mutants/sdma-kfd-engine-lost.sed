# Queues by engine are all on engine 0.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:kinds
s/kind == DMA_MAP_ENGINE \? engine : 0/0/
