# Handles are asked for outside of the scope of their device.
# file: ompi_coll_dma/gpu/ipc.c
# build: plain
# tests: test_device:memory_first_seen_in_a_mixed_call
/^static dma_status_t get_handle/,/^}/{s/rt->enter\(m->device, &scope\)/DMA_OK/;s/rt->leave\(&scope\);//;s/dma_gpu_scope_t scope;//}
