# Read permission is enough for the device file.
# file: ompi_coll_dma/engine/sdma/topology.c
# build: plain
# tests: test_sdma_topology:device_file
s/R_OK \| W_OK/R_OK/
