# What a peer says of its buffer is believed.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_errors:record_outside_of_the_allocation
s/far > peer->size\[slot\] - \(uint64_t\)first/false/
