# An algorithm that is asked for runs what it cannot.
# file: ompi_coll_dma/plan/cluster/cluster.c
# build: plain
# tests: test_cluster:choices
s/forced >= 0 && fits\(req, forced\)/forced >= 0/
