# Pool memory is taken for memory with a handle.
# file: ompi_coll_dma/gpu/memory.c
# build: plain
# tests: test_gpu_memory:every_kind
s@(\[DMA_GPU_DEVICE_POOL\] = )"[^"]*"@\1NULL@
