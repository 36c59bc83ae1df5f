# A copy that does not move is waited for for ever.
# file: ompi_coll_dma/cluster/relay.c
# build: plain
# tests: test_relay:engines_that_break
s/r->timeout > 0 &&/false \&\&/
