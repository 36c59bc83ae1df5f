# Destinations of a broadcast need not be congruent.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:alignment_rules
s/\(dst0 - dst1\) % DMA/(dst0 - dst1) % 16 * DMA/
