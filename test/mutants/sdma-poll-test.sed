# What a poll waits for lands in another field.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/\(uint32_t\)test << 28/(uint32_t)test << 27/
