# Rows go on at the end of a plane.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:moves_every_byte_once
s/rows \? bytes - \(p->skip/rows > 99 ? bytes - (p->skip/
