# A swap is a plain copy.
# file: ompi_coll_dma/engine/sdma/packet.c
# build: plain
# tests: test_sdma_packet:golden_words
s/COPY_SWAP     SUB\(9\)/COPY_SWAP     SUB(0)/
