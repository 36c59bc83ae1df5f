# The choice of before a refusal is kept.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_reach:refused
s/memset\(comm->memo, 0, sizeof\(comm->memo\)\);//
