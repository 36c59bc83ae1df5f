# An all-to-all in place reads what is being overwritten.
# file: ompi_coll_dma/plan/host_cross.c
# build: plain
# tests: test_choose:all_to_all_in_place
s/req->coll == DMA_ALLTOALL && req->in_place/false/
