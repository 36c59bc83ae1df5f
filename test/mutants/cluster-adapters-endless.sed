# Ranks of a node are taken not to share an adapter.
# file: ompi_coll_dma/plan/cluster/cost.c
# build: plain
# tests: test_cluster:testbed
s/users \? bytes \* users \/ rails : 0/users ? bytes : 0/
