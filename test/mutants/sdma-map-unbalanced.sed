# Who finds no engine of its own takes the first.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:even_engines_only test_sdma_map:overlapping_masks
s/if \(m->load\[lowest\(left\)\] < m->load\[best\]\)/if (false)/
