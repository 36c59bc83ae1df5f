/*
 * Queue providers: where a GPU's user-mode SDMA queues come from. The rest of the engine sees rings, two pointers and a
 * doorbell, and is the same whoever made them.
 *
 *     thunk   AMD's library between programs and the driver, in the instance that ROCr uses (ROCm up to 6.2)
 *     kfd     the driver's own interface, /dev/kfd, with memory that the application's ROCr allocates (any ROCm; the only
 *             one from 6.3 on, where the thunk is inside ROCr and exports nothing)
 *
 * The first that opens serves. ROCr's copies on engines of the caller's choice are none: they have no ring of ours, so
 * neither waits nor signals in the queue. Where no provider opens, the stream engine copies through the runtime.
 *
 * Nothing is initialised that the application has not: a provider finds libraries that are loaded, and a runtime that
 * runs. A forked child owns no queue; who calls here is the process that opened (queue.h sees to it).
 */
#ifndef DMA_SDMA_PROVIDER_H
#define DMA_SDMA_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"
#include "engine/sdma/map.h"

#define DMA_PROVIDER_WHY_BYTES 128 /* of a reason in words */

/* The GPU, as the driver names it. */
typedef struct dma_provider_gpu {
    uint32_t node;
    uint32_t gpu_id;
} dma_provider_gpu_t;

typedef struct dma_provider_queue {
    uint64_t id;
    uint64_t *read_ptr;
    uint64_t *write_ptr;
    uint64_t *doorbell;
    volatile int64_t *error; /* what has befallen the queue, not 0; NULL: this provider does not tell */
    void *pointers;          /* the provider's: memory that goes with the queue */
} dma_provider_queue_t;

/* Each provider has its own, with this in front. */
typedef struct dma_provider {
    const struct dma_provider_ops *ops;
    bool names_engines; /* queues on engines of a number can be made */
} dma_provider_t;

typedef struct dma_provider_ops {
    const char *name;

    /* On failure `why`, of DMA_PROVIDER_WHY_BYTES, says in words why there are no queues this way. */
    dma_status_t (*open)(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why);
    /* All queues and memory have been given back. */
    void (*close)(dma_provider_t *provider);

    /* Zeroed host memory that the GPU may read, write and fetch packets from, of whole pages. It begins a mapping of
     * exactly its size: kernels refuse queues whose memory does not. NULL: no memory. */
    void *(*alloc)(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr);
    void (*free)(dma_provider_t *provider, void *memory, uint64_t bytes);

    /* A queue of that kind on a ring of `alloc`, its counters equal. `engine` counts with DMA_MAP_ENGINE, which wants
     * names_engines. DMA_UNSUPPORTED: there is no room for it, or it is refused for another *reason. */
    dma_status_t (*create)(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, void *ring, uint64_t bytes,
                           dma_provider_queue_t *queue, const char **reason);
    void (*destroy)(dma_provider_t *provider, const dma_provider_queue_t *queue);
} dma_provider_ops_t;

extern const dma_provider_ops_t dma_provider_thunk;
extern const dma_provider_ops_t dma_provider_kfd;

/* All there are, the best first; ended by NULL. */
extern const dma_provider_ops_t *const dma_providers[];

/* Opens the first of a list, ended by NULL, that works: of those named `wanted`, unless that is "", "auto" or NULL.
 * DMA_UNSUPPORTED: none; `why`, of DMA_PROVIDER_WHY_BYTES, says for each of them why not. */
dma_status_t dma_provider_open(const dma_provider_ops_t *const *list, const char *wanted, const dma_provider_gpu_t *gpu,
                               dma_provider_t **provider, char *why);

#endif
