# A number that does not fit wraps.
# file: ompi_coll_dma/engine/sdma/topology_text.c
# build: plain
# tests: test_sdma_topology:malformed
s/if \(v > \(max - digit\) \/ 10 \|\| digit > max\)/if (false)/
