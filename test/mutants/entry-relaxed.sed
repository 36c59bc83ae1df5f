# The descriptor is published without its payload.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/atomic_store_explicit\(&d->seq/s/memory_order_release/memory_order_relaxed/
