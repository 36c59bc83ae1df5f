# A copy that does not move is waited for for ever.
# file: ompi_coll_dma/task/relay.c
# build: plain
# tests: test_relay:an_engine_stands_still
s/r->timeout > 0 &&/false \&\&/
