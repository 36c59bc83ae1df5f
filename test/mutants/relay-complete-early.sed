# A receive is over before the engine has drained its slot.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory test_relay:forms
s/go_to\(c, p, PIECE_DRAINS\)/go_to(c, p, PIECE_OVER)/
