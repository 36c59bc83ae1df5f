# Slots are used again before what is in them has been sent.
# file: ompi_coll_dma/cluster/lane.c
# build: plain
# tests: test_relay:copies_overlap_messages test_relay:every_algorithm_in_any_memory
s/l->next - l->first >= room/l->next - l->first >= room \&\& room \&\& l->next - l->first >= 2 * room/
