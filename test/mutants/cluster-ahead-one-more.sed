# A rank may send a turn before what it has received allows.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster_exchange:message_by_message
s/\.turn \+ s->ahead <= turn\)/.turn + s->ahead < turn)/
