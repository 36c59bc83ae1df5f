# Completed calls are never acknowledged.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:a_thousand_ahead
s/^    w->ack = seq;$//
