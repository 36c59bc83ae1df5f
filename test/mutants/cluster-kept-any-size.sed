# A plan is kept however large.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_kept:a_large_plan_is_not_kept
s/dma_cluster_bytes\(plan\) > CLUSTER_KEPT_BYTES \|\|/false ||/
