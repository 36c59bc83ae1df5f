# The bits below an aligned base are lost.
# file: ompi_coll_dma/engine/sdma/packet_rect.c
# build: plain
# tests: test_sdma_rect:moves_the_bytes
s/\(addr - base\) >> element/0/
