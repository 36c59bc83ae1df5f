# A chunk is given back before it is read.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/consumed, run->stream/,/;/s/memory_order_release/memory_order_relaxed/
