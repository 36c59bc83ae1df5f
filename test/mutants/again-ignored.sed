# A repeated call does not wait for the peers to enter it again.
# file: ompi_coll_dma/engine/host.c
# build: plain
# tests: test_errors:cross_memory_refused
s/d->sign != run->sign \|\| run->entry != DMA_ENTRY_FIRST/d->sign != run->sign/
