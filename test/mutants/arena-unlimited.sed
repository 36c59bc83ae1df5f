# Shared memory is made larger than files may be.
# file: ompi_coll_dma/node/arena.c
# build: plain
# tests: test_node:files_may_not_be_large
s/limit\.rlim_cur >= bytes \?/1 ?/
