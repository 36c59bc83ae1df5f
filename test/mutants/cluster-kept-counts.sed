# A plan serves a call whose blocks have other sizes.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_kept:calls_that_differ_in_one_number
s/same_numbers\(a->counts, b->counts, [^&]*&&/true \&\&/
