# Who does not reach one neighbour does not introduce itself to the others.
# file: ompi_coll_dma/cluster/peer.c
# build: plain
# tests: test_cluster_comm:neighbours_that_are_not_connected
s/^        m->lost = rank;$/        m->lost = rank; return status;/
