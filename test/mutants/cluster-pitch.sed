# Copies at one distance of the destination are one, whatever that of the source.
# file: ompi_coll_dma/plan/cluster/cluster.c
# build: plain
# tests: test_cluster:every_algorithm
s/ \|\| out != op->from_pitch \* \(int64_t\)op->rows\)/)/
