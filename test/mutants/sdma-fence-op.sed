# A fence that fences nothing.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/OP_FENCE = 5/OP_FENCE = 6/
