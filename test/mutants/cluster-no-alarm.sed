# Who fails tells nobody on other nodes.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_comm:algorithms_that_never_meet
s/^        say\(root, &\(dma_cluster_notice_t\).*$//
