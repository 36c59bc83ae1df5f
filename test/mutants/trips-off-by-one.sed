# The last, partial chunk of a block is left out.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_threads:blocking
s/\+ run->chunk - 1\) \/ run->chunk/) \/ run->chunk/
