# A partition is taken for the device.
# file: ompi_coll_dma/engine/sdma/topology.c
# build: plain
# tests: test_sdma_topology:found_by_partition
s/\(location\) >> 28/(location) >> 29/
