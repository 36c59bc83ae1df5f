# Every rank is taken to have a core of its own.
# file: ompi_coll_dma/plan/cluster/cost.c
# build: plain
# tests: test_cluster:testbed
s/return dma_wide_max\(most, all \* s->net->core_ranks \/ s->size\);/return most;/
