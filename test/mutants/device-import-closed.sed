# Memory of others is closed though a queue that waits may copy to it.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_sdma_engine:started_behind_a_failure
s/r < comm->nranks && !comm->window.permanent/r < comm->nranks/
