# What a flag announces is read before the flag.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/atomic_load_explicit\(word/s/memory_order_acquire/memory_order_relaxed/
