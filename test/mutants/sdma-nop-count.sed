# A pad that skips one dword too many.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/OP_NOP \| \(dwords - 1\)/OP_NOP | dwords/
