# Memory at the address of freed memory is taken for the same.
# file: ompi_coll_dma/gpu/share.c
# build: plain
# tests: test_device:memory_at_a_used_address
s/ \&\& e->buffer_id == m->buffer_id//
