# A plan that is kept reads the numbers of the call that it was made for.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_cluster_kept:calls_that_differ_in_one_number
s/copy\.(counts|displs) = memcpy\([^;]*;/copy.\1 = side->\1;/
