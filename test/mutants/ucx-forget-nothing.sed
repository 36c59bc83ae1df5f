# Messages of a communicator that is over stay.
# file: ucx_tl/message.c
# build: plain
# tests: test_ucx_tl:forgotten_communicators
s/return entry->head\.tag\.comm == \*\(const uint32_t \*\)comm;/return false;/
