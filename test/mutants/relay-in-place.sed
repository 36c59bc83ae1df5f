# In place, what comes overwrites what has not been copied away.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:every_algorithm_in_any_memory test_relay:copies_overlap_messages
s/return !op->after \|\|/return true ||/
