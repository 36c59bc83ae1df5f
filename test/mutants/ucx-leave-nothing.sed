# Messages of a communicator that is over stay.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:communicators_that_are_over
s/return entry->header\.tag\.comm == header->tag\.comm && .*;/return false;/
