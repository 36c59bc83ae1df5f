# A slot is overwritten before its acknowledgement.
# file: ompi_coll_dma/node/window.c
# build: thread
# tests: test_threads:acknowledged_apart
s/\(&w->peers\[peer\].block->acked, memory_order_acquire\)/(\&w->peers[peer].block->acked, memory_order_relaxed)/
