# A rank that cannot read its peers keeps it to itself.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_errors:cross_memory_refused
s/atomic_store_explicit\(&w->own->refused, run->seq/atomic_store_explicit(\&w->own->refused, run->seq - 1/
