# Memory of others is kept open by number only.
# file: ompi_coll_dma/device/comm.c
# build: plain
# tests: test_device_freed:large_allocations
s/kept > most \&\& i/false \&\& i/
