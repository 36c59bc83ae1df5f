/* Classification of an address range from the runtime's answer about one address. */
#include "gpu/memory.h"

#include "gpu/mapped.h"
#include "gpu/runtime.h"

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
    memory->mapped = memory->kind == DMA_GPU_DEVICE_VMM && !memory->reason && dma_mapped_find(rt, addr, bytes, memory);
    if (!memory->reason && !memory->mapped) {
        memory->reason = memory->kind == DMA_GPU_DEVICE_VMM     ? DMA_REASON_memory_vmm
                         : memory->kind != DMA_GPU_DEVICE_PLAIN ? DMA_REASON_memory_kind
                                                                : DMA_REASON_NONE;
    }
    if (!memory->reason && (memory->size == 0 || !inside(memory, addr, bytes))) {
        memory->reason = DMA_REASON_memory_kind;
    }
    memory->exportable = !memory->reason;
}
