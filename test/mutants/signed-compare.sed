# Sequence numbers are compared as if they never wrapped.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:sequence_wraps
s/\(int32_t\)\(seq - w->ack_floor\)/(int64_t)seq - (int64_t)w->ack_floor/
s/\(int32_t\)\(a - b\) > 0/a > b/
