# The plan that was used last is the one that goes.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_kept:plans_are_built_once
s/int k = \(c->newest \+ 1\) % CLUSTER_KEPT;/int k = c->newest;/
