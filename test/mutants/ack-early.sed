# A call is acknowledged before it has been completed.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_threads:a_thousand_ahead test_threads:blocking
s/^    w->ack = seq;$/    w->ack = seq + 1;/
