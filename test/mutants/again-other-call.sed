# Another operation or size is taken for the last one.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device:calls_that_come_again
/^        .coll = task->coll,$/d
/^        .in_place = task->in_place,$/d
