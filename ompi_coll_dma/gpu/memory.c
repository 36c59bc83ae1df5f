/* From the runtime's answer about one address to a verdict about a range. */
#include "gpu/memory.h"

#include <stddef.h>

#include "gpu/runtime.h"

/* In the order of dma_gpu_kind_t. A kind without a reason may be exported. */
static const struct {
    const char *name, *reason;
} kinds[DMA_GPU_NKINDS] = {
    [DMA_GPU_HOST] = {"host", "host memory has no IPC handle"},
    [DMA_GPU_HOST_PINNED] = {"host-pinned", "host memory has no IPC handle"},
    [DMA_GPU_HOST_REGISTERED] = {"host-registered", "host memory has no IPC handle"},
    [DMA_GPU_DEVICE_PLAIN] = {"device", NULL},
    [DMA_GPU_DEVICE_FINE] = {"device-fine", "fine-grained device memory is not shared by IPC"},
    [DMA_GPU_DEVICE_POOL] = {"device-pool", "memory of a pool has no IPC handle of its own"},
    [DMA_GPU_DEVICE_VMM] = {"device-vmm", "virtually mapped memory has no IPC handle"},
    [DMA_GPU_MANAGED] = {"managed", "managed memory migrates: it has no IPC handle"},
    [DMA_GPU_DEVICE_IMPORTED] = {"device-imported", "imported memory must not be exported again"},
    [DMA_GPU_UNKNOWN] = {"device-unknown", "the runtime does not say what kind of memory it is"},
};

const char *dma_gpu_kind_name(dma_gpu_kind_t kind)
{
    return (unsigned)kind < DMA_GPU_NKINDS ? kinds[kind].name : "?";
}

static bool inside(const dma_gpu_memory_t *memory, uint64_t addr, uint64_t bytes)
{
    uint64_t offset = addr - memory->base;

    return addr >= memory->base && offset <= memory->size && bytes <= memory->size - offset;
}

void dma_gpu_classify(const dma_gpu_runtime_t *rt, uint64_t addr, uint64_t bytes, dma_gpu_memory_t *memory)
{
    if (!rt || rt->query(addr, memory) != DMA_OK) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_HOST, .device = -1, .device_addr = addr};
    }
    if (!memory->reason) {
        memory->reason = kinds[memory->kind].reason;
    }
    if (!memory->reason && memory->size == 0) {
        memory->reason = "the runtime does not say where the allocation begins and ends";
    }
    if (!memory->reason && !inside(memory, addr, bytes)) {
        memory->reason = "the buffer does not end inside its allocation";
    }
    memory->exportable = !memory->reason;
}
