# A chunk is announced before it is written.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/atomic_store_explicit\(&w->own->produced/s/memory_order_release/memory_order_relaxed/
