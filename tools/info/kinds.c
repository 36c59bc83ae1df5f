/*
 * Which kinds of memory go which way. The rules are those of gpu/memory.h and device/resolve.c. A kind is classified as the
 * memory of a call would be, by a runtime that reports this kind for every address.
 */
#include "gpu/memory.h"

#include "tools/info/info.h"

static dma_gpu_kind_t asked;

static dma_status_t query(uint64_t addr, dma_gpu_memory_t *memory)
{
    *memory = (dma_gpu_memory_t){.kind = asked, .base = addr, .size = UINT64_MAX - addr, .device_addr = addr};
    return DMA_OK;
}

/* The way of a receive buffer of this kind. It is in device memory, or the rank's other buffer is. */
static const char *way_of(const dma_gpu_memory_t *memory)
{
    if (!dma_gpu_kind_on_device(memory->kind)) {
        return "host";
    }
    if (memory->exportable) {
        return "engines";
    }
    return dma_gpu_kind_is_known(memory->kind) ? "scratch" : "staged";
}

info_kind_t info_kind(dma_gpu_kind_t kind)
{
    static const struct {
        const char *name, *made_by;
    } names[INFO_KINDS] = {
        [DMA_GPU_HOST] = {"pageable", "malloc, mmap"},
        [DMA_GPU_HOST_PINNED] = {"pinned", "hipHostMalloc, cudaMallocHost"},
        [DMA_GPU_HOST_REGISTERED] = {"registered", "hipHostRegister"},
        [DMA_GPU_DEVICE_PLAIN] = {"device", "hipMalloc, cudaMalloc"},
        [DMA_GPU_DEVICE_FINE] = {"device-fine", "hipExtMallocWithFlags"},
        [DMA_GPU_DEVICE_POOL] = {"device-pool", "hipMallocAsync, cudaMallocAsync"},
        [DMA_GPU_DEVICE_VMM] = {"device-vmm", "hipMemMap; cuMemMap without file descriptors"},
        [DMA_GPU_MANAGED] = {"managed", "hipMallocManaged, cudaMallocManaged"},
        [DMA_GPU_DEVICE_IMPORTED] = {"device-imported", "hipIpcOpenMemHandle, cudaIpcOpenMemHandle"},
        [DMA_GPU_UNKNOWN] = {"device-unknown", "whatever the runtime does not know"},
    };
    static const dma_gpu_runtime_t runtime = {.name = "kinds", .query = query};
    dma_gpu_memory_t memory;

    asked = kind;
    dma_gpu_classify(&runtime, 4096, 4096, &memory);
    return (info_kind_t){
        .name = names[kind].name, .made_by = names[kind].made_by, .way = way_of(&memory), .reason = memory.reason};
}
