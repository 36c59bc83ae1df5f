# In place a receive waits for the send before its own.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
s/\? \+\+sent : 0/? sent++ : 0/
