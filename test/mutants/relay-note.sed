# How many pieces a message has is not compared.
# file: ompi_coll_dma/task/cluster_lane.c
# build: plain
# tests: test_relay:sizes_that_differ_by_pieces
s/ \| pieces_of\(c, op\) << 8//
