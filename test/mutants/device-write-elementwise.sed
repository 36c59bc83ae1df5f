# Every element is copied by itself, however many there are.
# file: ompi_coll_dma/device/write.c
# build: plain
# tests: test_device_holes:many_elements
s/bool along = p->n <= e->count;/bool along = false;/
