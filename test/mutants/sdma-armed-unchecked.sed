# A fault of an armed program is not noticed.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_engine:armed_queues_that_fault
s/if \(dma_queue_check\(b->armed_queues/if (false \&\& dma_queue_check(b->armed_queues/
