# Overlapping ranges are swapped.
# file: ompi_coll_dma/engine/sdma/gen.c
# build: plain
# tests: test_sdma_packet:alignment_rules
s/a < b \+ bytes/a < b/
