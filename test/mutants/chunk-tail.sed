# The last chunk is copied as if it were full.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_threads:blocking
s/bytes = bytes <= done \? 0 : bytes - done < chunk \? bytes - done : chunk/bytes = chunk/
