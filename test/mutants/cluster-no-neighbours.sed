# Nobody is met before the first call.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_comm:the_first_call_fails
s/c->root == c \? dma_cluster_connect_neighbors\(c, &lost\) : DMA_OK/DMA_OK/
