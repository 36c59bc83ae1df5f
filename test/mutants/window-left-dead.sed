# Who leaves does not say what it has completed.
# file: ompi_coll_dma/node/window.c
# build: plain
# tests: test_node:left_is_not_dead
/as in dma_window_completed/{n;d}
