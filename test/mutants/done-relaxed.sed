# A rank says that it is done before it is.
# file: ompi_coll_dma/engine/host.c
# build: thread
# tests: test_threads:blocking
/atomic_store_explicit\(&w->own->done/s/memory_order_release/memory_order_relaxed/
