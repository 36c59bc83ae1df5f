# What could not be opened once is not opened again.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_errors:one_opening_fails
s/r != comm->rank \&\& !peer->open\[at\]/false/
