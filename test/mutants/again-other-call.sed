# Another operation or size is taken for the last one.
# file: ompi_coll_dma/task/device_comm.c
# build: plain
# tests: test_device:calls_that_come_again
s/return last->coll == task->coll && last->in_place == task->in_place &&/return /
