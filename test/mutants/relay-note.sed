# Messages do not say what the size of the call is.
# file: ompi_coll_dma/cluster/call.c
# build: plain
# tests: test_relay:sizes_that_differ_by_pieces
s/even\(task\) \? task->bytes : 0/0/
