# Programs that are given up run.
# file: ompi_coll_dma/engine/sdma/arm.c
# build: plain
# tests: test_sdma_arm:given_up
s/atomic_store_explicit\(b->armed_queues\[i\]->go, 0, memory_order_relaxed\);//
