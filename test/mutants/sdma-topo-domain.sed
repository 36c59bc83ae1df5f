# Two domains are one.
# file: ompi_coll_dma/engine/sdma/topology.c
# build: plain
# tests: test_sdma_topology:found_by_address
s/gpu->domain == domain && //
