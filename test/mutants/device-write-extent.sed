# Packed elements are taken from where they lie in the receive buffer.
# file: ompi_coll_dma/device/write.c
# build: plain
# tests: test_device_holes:staged
s/r\.src_pitch = along \? e->side->size : p->pitch;//
