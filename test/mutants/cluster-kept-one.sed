# One plan is kept: a call there and one back are built again each time.
# file: ompi_coll_dma/cluster/cluster.h
# build: plain
# tests: test_cluster_kept:plans_are_built_once
s/^#define CLUSTER_KEPT 2$/#define CLUSTER_KEPT 1/
