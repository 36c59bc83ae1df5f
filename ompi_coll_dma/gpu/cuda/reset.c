/* CUDA: the markers by which resets of devices are detected (gpu/reset.h). */
#include "gpu/cuda/cuda.h"

cuda_error_t dma_cuda_attributes_in_context(int device, unsigned n, cuda_enum_t *names, void **data, uint64_t addr)
{
    struct CUctx_st *context;
    dma_gpu_scope_t scope;
    cuda_device_t dev;
    cuda_error_t error;

    dma_cuda_capture_relax(&scope);
    error = dma_cuda.device_get(&dev, device);
    if (error == CUDA_DONE && (error = dma_cuda.primary_retain(&context, dev)) == CUDA_DONE) {
        if ((error = dma_cuda.ctx_push(context)) == CUDA_DONE) {
            error = dma_cuda.pointer_get_attributes(n, names, data, addr);
            dma_cuda.ctx_pop(&context);
        }
        dma_cuda.primary_release(dev);
    }
    dma_cuda_capture_restore(&scope);
    return error;
}

static dma_status_t make_marker(uint64_t *addr)
{
    cuda_addr_t made = 0;
    dma_status_t status = DMA_CUDA_TRY(mem_alloc, &made, DMA_GPU_MARKER_BYTES);

    *addr = made;
    return status;
}

/* One call in general. An error in an active context says nothing about a reset: a kernel may have faulted. */
static void get_id(int device, uint64_t addr, uint64_t *id)
{
    cuda_enum_t name = CUDA_ATTRIBUTE_BUFFER_ID;
    uint64_t seen = 0;
    void *data = &seen;
    cuda_error_t error = dma_cuda.pointer_get_attributes(1, &name, &data, addr);

    if (error != CUDA_DONE && dma_cuda_context_is_active(device)) {
        error = dma_cuda_attributes_in_context(device, 1, &name, &data, addr);
        seen = error == CUDA_DONE ? seen : *id;
    }
    *id = seen;
}

static void free_marker(uint64_t addr)
{
    (void)DMA_CUDA_TRY(mem_free, addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .get_id = get_id, .free = free_marker};

dma_gpu_guard_t dma_cuda_guard = DMA_GPU_GUARD(&ops);

bool dma_cuda_is_lost(int device)
{
    return dma_gpu_guard_is_lost(&dma_cuda_guard, device);
}
