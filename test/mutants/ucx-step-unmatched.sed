# Messages of different steps match.
# file: ucx_tl/match.c
# build: plain
# tests: test_ucx_tl_match:every_part_counts
s/a->tag\.step == b->tag\.step/true/
