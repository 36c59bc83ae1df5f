# The process's shared memory goes though a queue that waits looks at it.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_sdma_engine:started_behind_a_failure
s/dma_arena_keep_mapped\(comm->window.arena\);//
