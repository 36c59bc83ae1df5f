# Memory in between goes although copies through it may be under way.
# file: ompi_coll_dma/engine/sdma/engine.c
# build: plain
# tests: test_sdma_bound:memory_stays_while_under_way
s/i <= b->nranks && quiet && /i <= b->nranks \&\& /
