# Descriptors of ranks with device memory are not compared.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device_errors:ranks_disagree
s/if \(differ\) \{/if (false) {/
