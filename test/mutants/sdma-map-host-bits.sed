# Engines that face the host are spread over.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:overlapping_masks
s/there &= pool\(m\);/;/
