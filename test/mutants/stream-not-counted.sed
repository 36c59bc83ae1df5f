# A stream does not move on from call to call.
# file: ompi_coll_dma/core/task.c
# build: plain
# tests: test_threads:blocking
s/comm->stream\[op->flag.rank\] \+= /(void)/
