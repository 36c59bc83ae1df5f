# What was dropped is published.
# file: ompi_coll_dma/engine/sdma/ring.c
# build: plain
# tests: test_sdma_ring:dropped_groups_leave_no_trace
s/ring->reserved = ring->published;/ring->published = ring->reserved;/
