# In an all-to-all the peers' first blocks are read.
# file: ompi_coll_dma/plan/host_cross.c
# build: plain
# tests: test_plans:every_variant
s/own = req->coll == DMA_ALLTOALL \? rank : 0/own = 0/
