# Of equal messages the last comes first.
# file: ucx_tl/match.c
# build: plain
# tests: test_ucx_tl_match:takes_the_oldest_equal
s/^    while \(\*link\) \{$/    while (false) {/; s/^    entry->next = NULL;$/    entry->next = *link;/
