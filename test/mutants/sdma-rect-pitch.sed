# A pitch of one element too many.
# file: ompi_coll_dma/engine/sdma/packet_rect.c
# build: plain
# tests: test_sdma_rect:moves_the_bytes
s/\(\(pitch >> element\) - 1\)/(pitch >> element)/
