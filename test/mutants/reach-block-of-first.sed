# In an all-to-all the peers' first blocks are read.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_plans:every_variant
s/dma_at\(DMA_BASE_SEND, owner, send_block\(req, reader\)\)/dma_at(DMA_BASE_SEND, owner, 0)/
