# Messages for a communicator that is over are kept.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_comm:unequal_sizes test_cluster_comm:algorithms_that_never_meet
s/^        c->wire->leave\(c->net, c->owner, c->id\);$//
