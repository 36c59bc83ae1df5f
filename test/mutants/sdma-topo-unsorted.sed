# Nodes come in the order of the directory.
# file: ompi_coll_dma/engine/sdma/topology_text.c
# build: plain
# tests: test_sdma_topology:machine
/qsort\(/d
