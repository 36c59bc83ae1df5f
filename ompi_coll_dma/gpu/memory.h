/*
 * What kind of memory an address belongs to, and whether it may be exported.
 *
 * A runtime answers a query about one address (dma_gpu_runtime_t.query). dma_gpu_classify applies the answer to a whole
 * range and decides whether an IPC handle may be requested. This decision is needed because requesting a handle is not
 * harmless: for memory that is not plain device memory the request fails late, or the handle opens as something else in
 * the peer, or the kernel crashes. So a handle is requested only where `exportable` is true and `mapped` is not.
 * docs/dev/memory-kinds.md lists the path that each kind takes.
 *
 *     base                     addr             addr + bytes    base + size
 *      |-------------------------|===================|---------------|
 *      the allocation            the call's buffer, exportable only if it ends inside the allocation
 */
#ifndef DMA_GPU_MEMORY_H
#define DMA_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/reason.h"
#include "dma/status.h"

typedef enum dma_gpu_kind {
    DMA_GPU_HOST,            /* pageable, or unknown to the runtime */
    DMA_GPU_HOST_PINNED,     /* host memory allocated by the runtime */
    DMA_GPU_HOST_REGISTERED, /* the application's own pages, registered with the runtime */
    DMA_GPU_DEVICE_PLAIN,    /* hipMalloc, cuMemAlloc: the only kind with an IPC handle */
    DMA_GPU_DEVICE_FINE,     /* fine-grained or uncached device memory */
    DMA_GPU_DEVICE_POOL,     /* from a memory pool: hipMallocAsync, cuMemAllocAsync */
    DMA_GPU_DEVICE_VMM,      /* mapped with the virtual memory management API */
    DMA_GPU_MANAGED,         /* migrates between host and devices */
    DMA_GPU_DEVICE_IMPORTED, /* memory of another process, opened with a handle */
    DMA_GPU_UNKNOWN,         /* on a device, but the runtime does not say of which kind */
} dma_gpu_kind_t;

typedef struct dma_gpu_memory {
    dma_gpu_kind_t kind;
    int device;          /* the runtime's ordinal; -1 for host memory without a device */
    uint64_t base, size; /* of the allocation; 0 if the runtime does not know them */
    uint64_t buffer_id;  /* distinguishes allocations that were given the same address; 0: the runtime has no such id */
    uint64_t device_addr; /* the device's address of the queried byte */
    bool exportable;      /* peers can open it (set by dma_gpu_classify) */
    bool mapped;          /* likewise: by file descriptors (mapped.h). Else an IPC handle may be requested */
    dma_reason_t reason;  /* why the memory is not exportable */
} dma_gpu_memory_t;

/* Whether only a device or its runtime may read and write memory of this kind: a CPU load from it may fault. */
static inline bool dma_gpu_kind_on_device(dma_gpu_kind_t kind)
{
    return kind >= DMA_GPU_DEVICE_PLAIN && kind != DMA_GPU_MANAGED;
}

/* Whether it is known well enough to be copied by engines. */
static inline bool dma_gpu_kind_is_known(dma_gpu_kind_t kind)
{
    return kind != DMA_GPU_UNKNOWN;
}

struct dma_gpu_runtime;

/*
 * Classifies [addr, addr + bytes). If `rt` is NULL, no runtime is loaded and all memory is host memory. Never fails: a
 * runtime that cannot answer any more (it was shut down, or the device was reset) has no device memory. Makes one
 * runtime call for the common kinds. A range of 0 bytes is classified by its first address.
 */
void dma_gpu_classify(const struct dma_gpu_runtime *rt, uint64_t addr, uint64_t bytes, dma_gpu_memory_t *memory);

#endif
