# A plan serves a call out of place as one in place.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_kept:calls_that_differ_in_one_number
s/a->in_place == b->in_place && //
