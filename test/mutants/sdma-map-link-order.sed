# The way through the host is as good as the link.
# file: ompi_coll_dma/engine/sdma/map.c
# build: plain
# tests: test_sdma_map:bridged_and_direct
s/ \|\| \(best->type != DMA_TOPO_XGMI && link->type == DMA_TOPO_XGMI\)//
