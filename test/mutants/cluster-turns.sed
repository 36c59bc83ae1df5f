# Senders and receivers take turns in orders of their own.
# file: ompi_coll_dma/plan/cluster_exchange.c
# build: plain
# tests: test_cluster:every_algorithm
s/return \(t \+ n - l->index\) % n;/return (t + l->index) % n;/
