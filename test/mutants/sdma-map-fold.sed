# An odd engine is dropped instead of folded.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:even_engines_only
s/\(there \| there >> 1\) & EVEN/there \& EVEN/
