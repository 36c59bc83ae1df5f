# What its owner has freed stays open beside what took its place.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_ipc:what_overlaps_has_been_freed
s/return overlap\(old, new\) \|\| /return /
