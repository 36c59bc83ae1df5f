# A rank that leaves in peace fails the others.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_comm:a_rank_leaves_early
s/status == DMA_ERR_PEER && root->wire->left\(root->net, p->peer\)/false/
