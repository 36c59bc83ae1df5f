/*
 * What the application's ROCr has for us: which GPU is which in its own numbering, and host memory for queues.
 *
 * ROCr numbers only what the process may open. Its numbers of nodes are not those of the kernel's topology. So a GPU is found by
 * what both take from the driver: PCI domain and location_id (topology.h).
 *
 * The pointers of a queue, and words that the CPU and the GPU share, come from ROCr's host memory pools. They are found in
 * the loaded library and used as any application may use them, if ROCr runs. Only functions that all versions of ROCr have
 * in common are declared here; its queues, which only new versions have, are in rocr_queue.h. Rings do not come from ROCr's
 * pools, because few versions give executable memory to applications (kfd.h).
 *
 * ROCr does not sub-allocate host memory: each allocation is a separate mapping, of exactly the requested size.
 */
#ifndef DMA_SDMA_ROCR_H
#define DMA_SDMA_ROCR_H

#include <stddef.h>
#include <stdint.h>

#include "dma/reason.h"
#include "dma/status.h"

#define DMA_ROCR_SUCCESS 0u
#define DMA_ROCR_ERROR   0x1000u

/* Arguments of queries and allocations. */
#define DMA_ROCR_AGENT_DEVICE      17u
#define DMA_ROCR_AGENT_LOCATION    0xA006u /* the driver's location_id */
#define DMA_ROCR_AGENT_DOMAIN      0xA00Fu
#define DMA_ROCR_AGENT_NEAREST_CPU 0xA113u /* not in old versions */
#define DMA_ROCR_DEVICE_CPU        0u
#define DMA_ROCR_DEVICE_GPU        1u
#define DMA_ROCR_POOL_SEGMENT      0u
#define DMA_ROCR_POOL_FLAGS        1u
#define DMA_ROCR_POOL_ALLOWED      5u
#define DMA_ROCR_SEGMENT_GLOBAL    0u
#define DMA_ROCR_POOL_KERNARG      1u
#define DMA_ROCR_POOL_FINE         2u

typedef struct dma_rocr_handle {
    uint64_t handle;
} dma_rocr_handle_t;

typedef uint32_t dma_rocr_each_t(dma_rocr_handle_t each, void *data);

/* A system event: the head that all kinds have in common, and what follows it in the two kinds that are handled. */
#define DMA_ROCR_EVENT_FAULT       0u
#define DMA_ROCR_EVENT_RESET       1u /* from ROCm 6.0 on */
#define DMA_ROCR_FAULT_NOT_PRESENT 1u
#define DMA_ROCR_FAULT_READ_ONLY   2u

typedef struct dma_rocr_event {
    uint32_t type;
    dma_rocr_handle_t agent;
    uint64_t address; /* of a fault */
    uint32_t reasons; /* of a fault: bit mask of DMA_ROCR_FAULT_* */
} dma_rocr_event_t;

typedef uint32_t dma_rocr_on_event_t(const dma_rocr_event_t *event, void *data);

typedef struct dma_rocr {
    uint32_t (*iterate_agents)(dma_rocr_each_t *each, void *data);
    uint32_t (*agent_info)(dma_rocr_handle_t agent, uint32_t what, void *value);
    uint32_t (*iterate_pools)(dma_rocr_handle_t agent, dma_rocr_each_t *each, void *data);
    uint32_t (*pool_info)(dma_rocr_handle_t pool, uint32_t what, void *value);
    uint32_t (*pool_allocate)(dma_rocr_handle_t pool, size_t bytes, uint32_t flags, void **memory);
    uint32_t (*pool_free)(void *memory);
    uint32_t (*allow_access)(uint32_t n, const dma_rocr_handle_t *agents, const uint32_t *flags, const void *memory);
    /* may be NULL */
    uint32_t (*on_event)(dma_rocr_on_event_t *handler, void *data);
} dma_rocr_t;

/* Identifies a GPU, or a partition of one. */
typedef struct dma_rocr_address {
    uint32_t domain;
    uint32_t location_id;
} dma_rocr_address_t;

/* A GPU agent and the host memory pool that is nearest to it. */
typedef struct dma_rocr_pool {
    dma_rocr_handle_t gpu;
    dma_rocr_handle_t pool;
} dma_rocr_pool_t;

/* Finds the functions in the loaded library. DMA_UNSUPPORTED: it is not loaded or too old; *reason says which. */
dma_status_t dma_rocr_find(dma_rocr_t *rocr, const char **reason);

/* Finds a GPU. DMA_UNSUPPORTED, with a reason: ROCr does not run, hides the GPU, or shows several with this address. */
dma_status_t dma_rocr_find_gpu(const dma_rocr_t *rocr, const dma_rocr_address_t *address, dma_rocr_handle_t *agent,
                               const char **reason);
/* Finds a GPU and memory for it. DMA_UNSUPPORTED also if ROCr has no fine-grained host memory, which both sides can use
 * without a flush. */
dma_status_t dma_rocr_find_pool(const dma_rocr_t *rocr, const dma_rocr_address_t *address, dma_rocr_pool_t *pool,
                                const char **reason);

/* Allocates zeroed memory of whole pages that the GPU may access at the same address, or returns NULL. */
void *dma_rocr_alloc(const dma_rocr_t *rocr, const dma_rocr_pool_t *pool, size_t bytes);

#endif
