# In place, a piece comes one too early.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:copies_overlap_messages test_relay:every_algorithm_in_any_memory test_relay:forms
s/sent->filled > p->number/sent->filled + 1 > p->number/
