# A late own block stays late.
# file: ompi_coll_dma/engine/stream/self_copy.c
# build: plain
# tests: test_stream:echo_while_copies_are_late
s/copy->echo = copy->next;//
