# Memory is opened where other memory is still held by the runtime.
# file: ompi_coll_dma/gpu/ipc.c
# tests: test_device_ipc:in_the_way
# build: plain
/^static dma_status_t find_closing/,/^}/s/return DMA_UNSUPPORTED;/continue;/
