# Nobody is met before the first call.
# file: ompi_coll_dma/task/cluster.c
# build: plain
# tests: test_cluster_comm:the_first_call_fails
s/c->root == c \? dma_cluster_connect\(c, &lost\) : DMA_OK/DMA_OK/
