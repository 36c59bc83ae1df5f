# Communicators with the same number are all over at once, whoever counts them.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:communicators_that_are_over
s/(return entry->header\.tag\.comm == header->tag\.comm) && .*;/\1;/
