# What was beside a new allocation in its block stays open.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_ipc:what_was_in_the_same_block
s/share_block\(old, new\) \&\& old->number < new->first/false/
