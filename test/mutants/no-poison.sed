# A rank that fails does not tell.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_errors:send_and_receive_side_disagree
s/^    atomic_exchange_explicit\(&w->own->head.poison.*$//
