# A message of another size is taken.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:sizes_and_notes_that_differ
s/differ \|\| bytes != req->bytes \?/differ ?/
