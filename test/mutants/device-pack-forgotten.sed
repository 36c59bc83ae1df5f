# A call whose data could not be packed is staged from memory that nothing was packed into.
# file: ompi_coll_dma/device/pack.c
# build: plain
# tests: test_device_shape:packing_fails
s/run->send = send;//
