# Calls are staged as a whole.
# file: ompi_coll_dma/device/resolve.c
# build: plain
# tests: test_relay:nothing_is_allocated_in_repeated_calls
s/return comm->cluster && call->recv.dense/return false \&\& call->recv.dense/
