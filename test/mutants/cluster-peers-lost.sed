# Where peers become more than their table has chains, those that are known are lost.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_comm
s/^            \*first = p;$/            (void)first;/
