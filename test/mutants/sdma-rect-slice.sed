# A strided copy beyond its plane.
# file: ompi_coll_dma/engine/sdma/packet_rect.c
# build: plain
# tests: test_sdma_rect:limits
s/ \|\| wider >> e > MAX_SLICE \/ r->rows//
