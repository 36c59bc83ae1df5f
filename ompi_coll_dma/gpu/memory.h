/*
 * What kind of memory an address is, and what may be done with it.
 *
 * A runtime answers a query about one address (runtime.h: `query`); dma_gpu_classify turns the answer into a verdict
 * about a whole range. The verdict exists because asking for an IPC handle is not a harmless question: on memory that is
 * not plain it fails late, opens in the peer as something else, or takes the kernel down. So a handle is asked for only
 * where `exportable` says so. docs/dev/memory-kinds.md has the table with the path each kind takes.
 *
 *     base                     addr             addr + bytes    base + size
 *      |-------------------------|===================|---------------|
 *      the allocation            the call's buffer: exportable only if it ends inside the allocation
 */
#ifndef DMA_GPU_MEMORY_H
#define DMA_GPU_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/status.h"

typedef enum dma_gpu_kind {
    DMA_GPU_HOST,            /* pageable, or no runtime knows it */
    DMA_GPU_HOST_PINNED,     /* host memory allocated by the runtime */
    DMA_GPU_HOST_REGISTERED, /* the application's own pages, registered with the runtime */
    DMA_GPU_DEVICE_PLAIN,    /* hipMalloc, cuMemAlloc: the only kind with an IPC handle */
    DMA_GPU_DEVICE_FINE,     /* fine-grained or uncached device memory */
    DMA_GPU_DEVICE_POOL,     /* from a memory pool: hipMallocAsync, cuMemAllocAsync */
    DMA_GPU_DEVICE_VMM,      /* mapped through the virtual memory interface */
    DMA_GPU_MANAGED,         /* migrates between host and devices */
    DMA_GPU_DEVICE_IMPORTED, /* another process's, opened by a handle */
    DMA_GPU_UNKNOWN,         /* on a device, but the runtime does not say what it is */
    DMA_GPU_NKINDS
} dma_gpu_kind_t;

typedef struct dma_gpu_memory {
    dma_gpu_kind_t kind;
    int device;           /* ordinal in the runtime; -1 for host memory without one */
    uint64_t base, size;  /* of the allocation; 0 where the runtime does not know */
    uint64_t buffer_id;   /* differs between allocations that were given the same address; 0: the runtime has none */
    uint64_t device_addr; /* of the queried address, as the device sees it */
    bool exportable;      /* an IPC handle may be asked for (set by dma_gpu_classify) */
    const char *reason;   /* why not exportable, a constant; NULL if exportable */
} dma_gpu_memory_t;

/* Memory that only a device (or its runtime) may read and write: a CPU load of it may fault. */
static inline bool dma_gpu_kind_on_device(dma_gpu_kind_t kind)
{
    return kind >= DMA_GPU_DEVICE_PLAIN && kind != DMA_GPU_MANAGED;
}

const char *dma_gpu_kind_name(dma_gpu_kind_t kind);

struct dma_gpu_runtime;

/*
 * The kind of [addr, addr + bytes). `rt` may be NULL: no runtime is loaded, everything is host memory. Never fails: a
 * runtime that cannot answer any more (shut down, device reset) has no device memory. One runtime call for the common
 * kinds. A range of no bytes is judged by its first address.
 */
void dma_gpu_classify(const struct dma_gpu_runtime *rt, uint64_t addr, uint64_t bytes, dma_gpu_memory_t *memory);

#endif
