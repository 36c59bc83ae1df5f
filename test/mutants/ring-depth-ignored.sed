# A place in the ring is reused whoever still reads it.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:a_thousand_ahead
s/return \(int32_t\)\(seq - w->ack_floor\) <= depth;/return true;/
