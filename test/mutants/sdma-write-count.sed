# A write that eats the packet behind it.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/p\[3\] = dwords - 1;/p[3] = dwords;/
