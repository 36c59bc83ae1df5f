# A table that grows keeps the last of each chain only.
# file: ucx_tl/match.c
# build: plain
# tests: test_ucx_tl_match:grows_with_what_it_holds
s/^ +\*end = &entry->next;$//
