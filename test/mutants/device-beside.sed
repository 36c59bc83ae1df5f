# Two calls in device memory run beside each other.
# file: ompi_coll_dma/device/call.c
# build: plain
# tests: test_device:outstanding
s/if \(comm->streaming\) \{/if (false) {/
