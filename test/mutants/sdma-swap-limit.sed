# Pieces of a swap are not aligned.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:pieces
s/0x3fffff80/0x3fffffe0/; /_Static_assert\(SWAP_MAX/d
