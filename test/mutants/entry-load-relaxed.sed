# A descriptor's payload is read before its number.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/&d->seq, memory_order_acquire/s/memory_order_acquire/memory_order_relaxed/
