# Only ranks that have messages for each other meet.
# file: ompi_coll_dma/task/cluster_peer.c
# build: plain
# tests: test_cluster_comm:algorithms_that_never_meet
s/^    if \(c->root->connected\) \{$/    if (true) {/
