# A malformed number is taken as far as it goes.
# file: ompi_coll_dma/engine/sdma/topology_text.c
# build: plain
# tests: test_sdma_topology:malformed
s/\(\*p && \*p != .\\n.\)/false/
