# Memory goes before its queue.
# file: ompi_coll_dma/engine/sdma/kfd.c
# build: plain
# tests: test_sdma_kfd:kinds
/^static void kfd_destroy/,/^}/{s/destroy_queue\(k, queue->id\);/k->rocr.pool_free(queue->pointers);/;t;s/k->rocr\.pool_free\(queue->pointers\);/destroy_queue(k, queue->id);/}
