# The sender takes another rank for the carrier.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
s/\(k - 1\) % size : j % size\) == carrier/(k - 1) % size : j % f->l->max_size) == carrier/
