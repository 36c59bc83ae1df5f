# A slot is sent before the engine has filled it.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory test_relay:copies_overlap_messages
s/go_to\(c, p, PIECE_FILLS\)/go_to(c, p, PIECE_FILLED)/
