/* Classification of an address range from the runtime's answer about one address. */
#include "gpu/memory.h"

#include <stddef.h>

#include "gpu/runtime.h"

/* Why memory of a kind must not be exported; NULL if it may be. */
static const char *const reasons[] = {
    [DMA_GPU_HOST] = "host memory has no IPC handle",
    [DMA_GPU_HOST_PINNED] = "host memory has no IPC handle",
    [DMA_GPU_HOST_REGISTERED] = "host memory has no IPC handle",
    [DMA_GPU_DEVICE_PLAIN] = NULL,
    [DMA_GPU_DEVICE_FINE] = "fine-grained device memory is not shared by IPC",
    [DMA_GPU_DEVICE_POOL] = "memory of a pool has no IPC handle of its own",
    [DMA_GPU_DEVICE_VMM] = "virtually mapped memory has no IPC handle",
    [DMA_GPU_MANAGED] = "managed memory migrates: it has no IPC handle",
    [DMA_GPU_DEVICE_IMPORTED] = "imported memory must not be exported again",
    [DMA_GPU_UNKNOWN] = "the runtime does not say what kind of memory it is",
};

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
        memory->reason = reasons[memory->kind];
    }
    if (!memory->reason && memory->size == 0) {
        memory->reason = "the runtime does not say where the allocation begins and ends";
    }
    if (!memory->reason && !inside(memory, addr, bytes)) {
        memory->reason = "the buffer does not end inside its allocation";
    }
    memory->exportable = !memory->reason;
}
