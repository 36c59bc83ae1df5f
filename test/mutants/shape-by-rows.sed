# Regular planes of few rows are copied one by one.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:few
s/\.by_planes = .*$/.by_planes = false};/
