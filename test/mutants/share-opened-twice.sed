# Every communicator opens memory for itself.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device_cost:openings_are_shared
/^static dma_import_t \*find_import/,/^}/s/if \(is_import_of\(i, device, nonce\)\) \{/if (false) {/
