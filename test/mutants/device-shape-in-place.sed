# In place, the shape of the send side counts.
# file: ompi_coll_dma/device/shape.c
# build: plain
# tests: test_device_shape:by_engines
s/in_place \? &d->recv_shape/in_place \&\& 0 ? \&d->recv_shape/
