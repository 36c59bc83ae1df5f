# Where streams write no words, nobody does.
# file: ompi_coll_dma/engine/stream/engine.c
# build: plain
# tests: test_stream:without_writes_and_graphs
s/b->recorded\[stream\] = status == DMA_OK;//
