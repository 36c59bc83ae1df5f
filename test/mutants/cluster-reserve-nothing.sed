# Memory for introductions is not asked for before others wait for them.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_told:a_set_up_without_memory
s/c->root == c \? dma_cluster_alloc_neighbors\(c\) : status/false ? dma_cluster_alloc_neighbors(c) : status/
