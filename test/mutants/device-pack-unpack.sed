# What was packed is not unpacked.
# file: ompi_coll_dma/device/pack.c
# build: plain
# tests: test_device_shape:packed_inside_the_device
s/d->user_shape = d->recv_shape;//
