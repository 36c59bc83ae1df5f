# An all-gather of no bytes from a peer does not wait for its entry.
# file: ompi_coll_dma/plan/host/pair.c
# build: plain
# tests: test_reach_plans:loops_alone
s/^    if \(!gathers\(req\)\) \{$/    if (true) {/
