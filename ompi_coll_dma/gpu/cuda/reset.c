/* CUDA: the markers by which resets of devices are detected (gpu/reset.h). */
#include "gpu/cuda/cuda.h"

#define MARKER_BYTES 64 /* never accessed; any small size does */

static cuda_error_t get_id(uint64_t addr, uint64_t *id)
{
    cuda_enum_t name = CUDA_ATTRIBUTE_BUFFER_ID;
    void *data = id;

    *id = 0;
    return dma_cuda.pointer_get_attributes(1, &name, &data, addr);
}

/* For a thread without a context, or with one that has been destroyed. The context of the device is active: retaining
 * it does not create it. */
static cuda_error_t get_id_in_context(int device, uint64_t addr, uint64_t *id)
{
    struct CUctx_st *context;
    dma_gpu_scope_t scope;
    cuda_device_t dev;
    cuda_error_t error;

    dma_cuda_capture_relax(&scope);
    error = dma_cuda.device_get(&dev, device);
    if (error == CUDA_DONE && (error = dma_cuda.primary_retain(&context, dev)) == CUDA_DONE) {
        if ((error = dma_cuda.ctx_push(context)) == CUDA_DONE) {
            error = get_id(addr, id);
            dma_cuda.ctx_pop(&context);
        }
        dma_cuda.primary_release(dev);
    }
    dma_cuda_capture_restore(&scope);
    return error;
}

static bool make_marker(int device, dma_gpu_marker_t *marker)
{
    cuda_addr_t made = 0;

    (void)device;
    if (DMA_CUDA_TRY(mem_alloc, &made, MARKER_BYTES) != DMA_OK) {
        return false;
    }
    marker->addr = made;
    if (get_id(made, &marker->id) != CUDA_DONE || !marker->id) {
        (void)DMA_CUDA_TRY(mem_free, made);
        return false;
    }
    return true;
}

/* One call in general. An error in an active context says nothing about a reset: a kernel may have faulted. */
static bool is_marker_intact(int device, const dma_gpu_marker_t *marker)
{
    uint64_t id;
    cuda_error_t error = get_id(marker->addr, &id);

    if (error != CUDA_DONE) {
        if (!dma_cuda_context_is_active(device)) {
            return false;
        }
        error = get_id_in_context(device, marker->addr, &id);
    }
    return error != CUDA_DONE || id == marker->id;
}

static bool is_intact(int device, const dma_gpu_marker_t *marker)
{
    bool intact = is_marker_intact(device, marker);

    if (!intact) {
        dma_cuda_context_forget(device); /* `enter` retains it again */
    }
    return intact;
}

static void free_marker(int device, const dma_gpu_marker_t *marker)
{
    (void)device;
    (void)DMA_CUDA_TRY(mem_free, marker->addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .is_intact = is_intact, .free = free_marker};

dma_gpu_guard_t dma_cuda_guard = DMA_GPU_GUARD(&ops);

unsigned dma_cuda_resets(int device)
{
    return dma_gpu_guard_resets(&dma_cuda_guard, device);
}

dma_status_t dma_cuda_origin(dma_gpu_origin_t *origin)
{
    dma_status_t status;
    int device;

    status = DMA_CUDA(ctx_get_device, &device);
    if (status != DMA_OK) {
        return status;
    }
    if (device >= DMA_GPU_MAX_DEVICES) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "device %d: only %d are supported", device, DMA_GPU_MAX_DEVICES);
    }
    *origin = dma_gpu_guard_watch(&dma_cuda_guard, device);
    return DMA_OK;
}
