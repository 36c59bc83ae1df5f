# The last chunk is copied as if it were full.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_threads:blocking
s/bytes = bytes <= skip \? 0 : bytes - skip < run->chunk \? bytes - skip : run->chunk/bytes = run->chunk/
