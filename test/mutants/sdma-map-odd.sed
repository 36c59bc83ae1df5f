# Odd engines of a part that has none.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:even_engines_only
s/there = \(there \| there >> 1\) & EVEN;/;/
