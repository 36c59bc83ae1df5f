# The tail of a block is read from its begin.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:not_refused
s/addr \+ skip,$/addr,/
