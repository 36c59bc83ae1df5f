# Memory that a meeting could not open is not shown again.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_errors:one_opening_fails
s/dc->unsettled \|= own->fresh \? bit : 0;//
