# New memory is said to be known.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device:memory_first_seen_in_a_mixed_call
s/return slot == DEVICE_SLOTS \|\| dc->unsettled/return dc->unsettled/
