# What a queue that waits for ever looks at becomes something else.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_sdma_engine:started_without_a_peer
s/if \(w->stays\)/if (false)/
