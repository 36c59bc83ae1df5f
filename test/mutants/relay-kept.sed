# Slots are not given back.
# file: ompi_coll_dma/cluster/relay.c
# build: plain
# tests: test_relay:nothing_is_allocated_in_repeated_calls
s/r->busy = status != DMA_OK;/r->busy = true;/
