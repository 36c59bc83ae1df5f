# A rank says that it has read a block before it has.
# file: ompi_coll_dma/engine/host/host.c
# build: thread
# tests: test_threads:blocking
/->landed, run->seq - 1 \+ value,/,/memory_order_release/s/memory_order_release/memory_order_relaxed/
