# UCX gets all sends at once.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:window_and_cancel
s/ && peer->sends < net->config\.window//
