# Memory at the address of freed memory is taken for the same.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device:memory_at_a_used_address
s/ \&\& a->buffer_id == b->buffer_id//
