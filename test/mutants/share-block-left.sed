# What is left in a block is taken for gone.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_ipc:what_is_left_in_the_block
s/ \&\& !is_freed\(ipc, \&e->export\)/ \&\& is_freed(ipc, \&e->export)/
