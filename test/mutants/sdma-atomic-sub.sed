# An atomic adds with 32 bits.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/UINT32_C\(47\)/UINT32_C(15)/
