# An element that does not divide the row.
# file: ompi_coll_dma/engine/sdma/packet_rect.c
# build: plain
# tests: test_sdma_rect:moves_the_bytes
s/ \| r->row_bytes\)/)/
