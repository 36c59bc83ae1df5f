# A rank goes by its own probes alone.
# file: ompi_coll_dma/core/setup/setup.c
# build: plain
# tests: test_errors:cross_memory_not_proven
s/cross = cross && v->cross/cross = r == comm->rank ? v->cross : cross/
