# One of several partitions is as good as another.
# file: ompi_coll_dma/engine/sdma/topology.c
# build: plain
# tests: test_sdma_topology:found_by_partition
s/^            if \(found\) \{/            if (false) {/
