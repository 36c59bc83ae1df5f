# Memory is asked for in one piece, which a signal may always interrupt.
# file: ompi_coll_dma/node/arena.c
# tests: test_node:memory_comes_in_pieces
# build: plain
s/^#define ALLOCATE_PIECE .*/#define ALLOCATE_PIECE SIZE_MAX/
