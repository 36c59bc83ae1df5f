# A descriptor's payload is read before its number.
# file: ompi_coll_dma/engine/host.c
# build: thread
# tests: test_threads:blocking
/again : &d->seq/s/memory_order_acquire/memory_order_relaxed/
