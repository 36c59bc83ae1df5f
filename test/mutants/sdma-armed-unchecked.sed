# A fault of an armed program is not noticed.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_engine:armed_queues_that_fault
s/if \(b->waiting\[i\] \&\& dma_queue_check/if (false \&\& dma_queue_check/
