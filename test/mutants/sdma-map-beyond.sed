# Engines that the GPU has not got.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:overlapping_masks
s/mask & below\(.*\);/mask;/
