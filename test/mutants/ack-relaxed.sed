# An acknowledgement overtakes the reads it stands for.
# file: ompi_coll_dma/node/window.c
# build: thread
# tests: test_threads:acknowledged_apart
/atomic_store_explicit\(&w->own->acked/s/memory_order_release/memory_order_relaxed/
