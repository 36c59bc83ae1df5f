/*
 * Memory of the application's ROCr, for queues that we ask the kernel for ourselves.
 *
 * A queue's ring and pointers have to be in the GPU address space that ROCr has set up for the process. ROCr alone can put
 * memory there: it keeps the addresses. So we take host memory of its pools, found in the library that is loaded and, if
 * it runs, used as any application may. Declared here is what all its versions share.
 *
 * Pools of host memory are not carved up: each allocation is one mapping of its own, of the stated size.
 */
#ifndef DMA_SDMA_ROCR_H
#define DMA_SDMA_ROCR_H

#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

#define DMA_ROCR_SUCCESS 0u

/* What is asked of agents, pools and allocations. */
#define DMA_ROCR_AGENT_DEVICE      17u
#define DMA_ROCR_AGENT_DRIVER_NODE 0xA004u
#define DMA_ROCR_AGENT_NEAREST_CPU 0xA113u /* newer versions */
#define DMA_ROCR_DEVICE_CPU        0u
#define DMA_ROCR_DEVICE_GPU        1u
#define DMA_ROCR_POOL_SEGMENT      0u
#define DMA_ROCR_POOL_FLAGS        1u
#define DMA_ROCR_POOL_ALLOWED      5u
#define DMA_ROCR_SEGMENT_GLOBAL    0u
#define DMA_ROCR_POOL_KERNARG      1u
#define DMA_ROCR_POOL_FINE         2u
#define DMA_ROCR_EXECUTABLE        4u /* newer versions */

typedef struct dma_rocr_handle {
    uint64_t handle;
} dma_rocr_handle_t;

typedef uint32_t dma_rocr_each_t(dma_rocr_handle_t each, void *data);

typedef struct dma_rocr {
    uint32_t (*iterate_agents)(dma_rocr_each_t *each, void *data);
    uint32_t (*agent_info)(dma_rocr_handle_t agent, uint32_t what, void *value);
    uint32_t (*iterate_pools)(dma_rocr_handle_t agent, dma_rocr_each_t *each, void *data);
    uint32_t (*pool_info)(dma_rocr_handle_t pool, uint32_t what, void *value);
    uint32_t (*pool_allocate)(dma_rocr_handle_t pool, size_t bytes, uint32_t flags, void **memory);
    uint32_t (*pool_free)(void *memory);
    uint32_t (*allow_access)(uint32_t n, const dma_rocr_handle_t *agents, const uint32_t *flags, const void *memory);
} dma_rocr_t;

/* A GPU of ROCr's, and the host memory nearest to it. */
typedef struct dma_rocr_find_pool {
    dma_rocr_handle_t gpu;
    dma_rocr_handle_t pool;
} dma_rocr_pool_t;

/* The library that is loaded. DMA_UNSUPPORTED: none; *reason says why. */
dma_status_t dma_rocr_find(dma_rocr_t *rocr, const char **reason);

/* The GPU with the kernel's number `node`. DMA_UNSUPPORTED, with a reason: ROCr does not run, hides it, or has no host
 * memory that both sides can use without a flush (fine-grained). */
dma_status_t dma_rocr_find_pool(const dma_rocr_t *rocr, uint32_t node, dma_rocr_pool_t *pool, const char **reason);

/* Zeroed memory of whole pages that the GPU may use, at the same address on both sides, or NULL. Executable where this
 * ROCr lets us say so, as the rings of its own DMA queues are. */
void *dma_rocr_alloc(const dma_rocr_t *rocr, const dma_rocr_pool_t *pool, size_t bytes);

#endif
