/* HIP: the markers by which resets of devices are detected (gpu/reset.h). */
#include "gpu/hip/hip.h"

static dma_status_t make_marker(uint64_t *addr)
{
    void *made = NULL;
    dma_status_t status = DMA_HIP_TRY(hipMalloc, &made, DMA_GPU_MARKER_BYTES);

    *addr = (uintptr_t)made;
    return status;
}

static void get_id(int device, uint64_t addr, uint64_t *id)
{
    (void)device;
    *id = dma_hip_buffer_id(addr, id) ? *id : 0;
}

static void free_marker(uint64_t addr)
{
    (void)DMA_HIP_TRY(hipFree, (void *)(uintptr_t)addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .get_id = get_id, .free = free_marker};

dma_gpu_guard_t dma_hip_guard = DMA_GPU_GUARD(&ops);

bool dma_hip_is_lost(int device)
{
    return dma_gpu_guard_is_lost(&dma_hip_guard, device);
}
