# Two calls in device memory run beside each other.
# file: ompi_coll_dma/task/device.c
# build: plain
# tests: test_device:outstanding
s/if \(comm->streaming\) \{/if (false) {/
