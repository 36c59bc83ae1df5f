# A slot is overwritten before its acknowledgement.
# file: ompi_coll_dma/node/window.c
# build: thread
# tests: test_threads:acknowledged_apart
/peers\[r\].block->acked, memory_order_acquire/s/memory_order_acquire/memory_order_relaxed/
