/* HIP: the markers by which resets of devices are detected (gpu/reset.h). */
#include "gpu/hip/hip.h"

#define MARKER_BYTES 64 /* never accessed; any small size does */

static bool make_marker(int device, dma_gpu_marker_t *marker)
{
    void *made = NULL;

    (void)device;
    if (DMA_HIP_TRY(hipMalloc, &made, MARKER_BYTES) != DMA_OK) {
        return false;
    }
    marker->addr = (uintptr_t)made;
    if (!dma_hip_buffer_id(marker->addr, &marker->id)) {
        (void)DMA_HIP_TRY(hipFree, made);
        return false;
    }
    return true;
}

static bool is_intact(int device, const dma_gpu_marker_t *marker)
{
    uint64_t id;

    (void)device;
    return dma_hip_buffer_id(marker->addr, &id) && id == marker->id;
}

static void free_marker(int device, const dma_gpu_marker_t *marker)
{
    (void)device;
    (void)DMA_HIP_TRY(hipFree, (void *)(uintptr_t)marker->addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .is_intact = is_intact, .free = free_marker};

dma_gpu_guard_t dma_hip_guard = DMA_GPU_GUARD(&ops);

unsigned dma_hip_resets(int device)
{
    return dma_gpu_guard_resets(&dma_hip_guard, device);
}
