# Who comes first keeps its engine.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:random_masks test_sdma_map:overlapping_masks
s/ \|\| assign_engine\(m, m->owner\[engine\], tried\)//
