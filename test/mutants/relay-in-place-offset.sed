# Pieces are drained to the place of the first.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory
s/dma_cluster_at\(call, op->to\) \+ offset\(c, p\),$/dma_cluster_at(call, op->to),/
