# Every message of a block takes its first bytes.
# file: ompi_coll_dma/plan/cluster/alltoall.c
# build: plain
# tests: test_cluster:every_algorithm
s/^        b->place\.at \+= \(int64_t\)bytes;$//
