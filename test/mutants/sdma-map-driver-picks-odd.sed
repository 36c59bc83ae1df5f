# The driver picks on a part without odd engines.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:even_engines_only
/return one_of\(pool\(m\), reason\);/s/one_of.*/(dma_map_pick_t){.kind = DMA_MAP_XGMI, .reason = reason};/
