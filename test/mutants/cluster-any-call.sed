# What a peer says of one call is taken for this one.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_comm:a_rank_is_late
s/ \|\|$/ ||/; s/^        theirs->seq != c->call.seq\) \{$/        false) {/
