# A time that no number holds is a short one.
# file: ompi_coll_dma/plan/cluster/cost.c
# build: plain
# tests: test_cluster:choices
s/return t > UINT64_MAX - 1 \? UINT64_MAX - 1 : \(uint64_t\)t;/return (uint64_t)t;/
