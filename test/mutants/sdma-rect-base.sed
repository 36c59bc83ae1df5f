# A base that is not aligned.
# file: ompi_coll_dma/engine/sdma/packet_rect.c
# build: plain
# tests: test_sdma_rect:moves_the_bytes
s/addr - addr % BASE_ALIGN/addr/
