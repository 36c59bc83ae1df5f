# Senders and receivers take turns in orders of their own.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
s/first = \(n - l->index\) % n;/first = l->index % n;/
