# Every communicator opens memory for itself.
# file: ompi_coll_dma/gpu/share.c
# build: plain
# tests: test_device_cost:openings_are_shared
s/if \(i->nonce == nonce \&\& i->device == device\) \{/if (false) {/
