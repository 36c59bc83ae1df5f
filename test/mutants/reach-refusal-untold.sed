# A rank that cannot read a peer's block does not tell it.
# file: ompi_coll_dma/engine/host/host.c
# build: plain
# tests: test_reach:refused
s/atomic_store_explicit\(&line->denied, run->seq,/atomic_store_explicit(\&line->denied, run->seq - 1,/
