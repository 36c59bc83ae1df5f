# A message is copied only when no other is under way.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:copies_overlap_messages
s/uint64_t room = call->relay \? dma_relay_slots\(call->relay\)/uint64_t room = call->relay ? 1/
