# Programs that are given up copy all the same.
# file: ompi_coll_dma/engine/sdma/arm.c
# run: sweep device 4 mi300x --mca coll_dma_armed_seconds 0.001
s/atomic_store_explicit\(b->armed_queues\[i\]->go, 0/atomic_store_explicit(b->armed_queues[i]->go, 1/
