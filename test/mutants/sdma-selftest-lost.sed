# What the self-test has kept for a late queue is not freed with the queues.
# file: ompi_coll_dma/engine/sdma/queue.c
# build: plain
# tests: test_sdma_queue:late_in_the_self_test
s/^        if \(q->late_memory\) \{/        if (q->late_memory \&\& !q->list) {/
