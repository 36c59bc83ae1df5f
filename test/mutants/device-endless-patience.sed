# An engine that never binds is asked for ever.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_errors:patience_ends
s/\+\+dc->failures == DEVICE_PATIENCE/false/
