# Other memory at the same address is taken for the same.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device:calls_that_come_again
/^        .buffer_id = m->buffer_id,$/d
