# Chunk buffers overlap.
# file: ompi_coll_dma/node/window.h
# build: plain
# tests: test_threads:blocking
s/\* w->geom.chunk_bytes/* (w->geom.chunk_bytes - 1)/
