# A copy of one byte too many.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/\(uint32_t\)\(piece - 1\)/(uint32_t)piece/
