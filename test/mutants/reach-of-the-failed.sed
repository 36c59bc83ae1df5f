# What was read of a rank that has failed meanwhile counts.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:owner_fails
s/else if \(dma_window_failed\(.*\)\) \{/else if (false) {/
