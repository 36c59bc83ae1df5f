# The last round of Bruck sends as much as the others.
# file: ompi_coll_dma/plan/cluster/allgather.c
# build: plain
# tests: test_cluster:every_algorithm
s/count = left < have \? left : have;/count = have;/
