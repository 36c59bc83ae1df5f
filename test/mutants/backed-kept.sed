# Memory that was not enough is kept.
# file: ompi_coll_dma/node/arena.c
# tests: test_node:memory_comes_in_pieces
# build: plain
s/\(void\)fallocate\(/(void)sizeof(/
s/arena->fd, FALLOC_FL_PUNCH_HOLE.*/at -/
s/^ +\(off_t\)\(at - arena->allocated\)\);/arena->allocated);/
