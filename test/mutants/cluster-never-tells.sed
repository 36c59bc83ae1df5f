# Nobody says which call it waits in.
# file: ompi_coll_dma/cluster/setup.c
# build: plain
# tests: test_cluster_comm:algorithms_that_never_meet
s/^    dma_cluster_announce_call\(c\);$//
