# The last plane is forgotten.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:spans
s/planes - 1, shape->step/planes - (planes > 1) - 1, shape->step/
