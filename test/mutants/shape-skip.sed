# A copy begins where the block does.
# file: ompi_coll_dma/gpu/shape.c
# build: plain
# tests: test_shape:moves_every_byte_once
s/x \+= p->skip;//
