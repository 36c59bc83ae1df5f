# A poll looks at a register instead of memory.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/ \| POLL_MEMORY;/;/
