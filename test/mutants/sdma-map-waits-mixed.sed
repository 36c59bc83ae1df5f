# The driver may pick the engine that we named.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:overlapping_masks
s/ && unnamed == 0//
