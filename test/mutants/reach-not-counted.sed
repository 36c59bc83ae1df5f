# Chunks of a way that was not taken are counted.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_reach:not_refused
s/op->flags & DMA_OP_FALLBACK && !c->fallback/false/
