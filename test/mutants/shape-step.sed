# Planes are as far apart as rows.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:moves_every_byte_once
s/plane_bytes\(s\) \* s->step/plane_bytes(s) * s->pitch/
