# Who has no memory for its set-up does not wait for what the others say.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_told:a_network_without_memory
s/^    c->phase = MEMORY;$/    if (status != DMA_OK) { return status; } c->phase = MEMORY;/
