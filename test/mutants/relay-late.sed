# The slots of a relay go although an engine may still get to a copy.
# file: ompi_coll_dma/cluster/relay.c
# build: plain
# tests: test_relay:late_at_the_end
s/if \(status != DMA_AGAIN\) \{/{/
