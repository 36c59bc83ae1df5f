# A send that is taken out of its line takes the others with it.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:window_and_cancel
s/^    \*link = req->next;$/    *link = NULL;/
