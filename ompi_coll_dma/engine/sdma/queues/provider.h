/*
 * Queue providers: where the user-mode SDMA queues of a GPU come from. The rest of the engine sees a ring, two pointers and
 * a doorbell, and does not depend on the provider.
 *
 *     rocr    ROCr's public interface for DMA queues (from version 1.31 of its AMD extensions on)
 *     kfd     the ioctl interface of the kernel driver, /dev/kfd, in the address space of the application's ROCr (any version
 *             of ROCm)
 *
 * They are tried in this order; if the first queue of one is refused, the next one is used. Queues that can name their engine are
 * on the engines that the driver recommends for the links, and only they can wait (map.h): those of rocr always can, those of kfd
 * from KFD 1.17 on. ROCr's copies on an engine of the caller's choice are not a provider: they give no access to a ring, so waits
 * and signals cannot be queued. If no provider works, the stream engine copies with the runtime.
 *
 * A provider initializes nothing on the application's behalf: it uses libraries that are loaded and a runtime that is
 * initialized. A forked child owns no queue. queue.h makes sure that only the process that opened a provider calls it.
 */
#ifndef DMA_SDMA_PROVIDER_H
#define DMA_SDMA_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/counters.h"
#include "dma/status.h"
#include "engine/sdma/node/map.h"
#include "engine/sdma/queues/rocr.h"

#define DMA_PROVIDER_WHY_BYTES 256 /* of the reasons of all providers, in a line that a user can read */

/* The GPU, in the driver's terms. */
typedef struct dma_provider_gpu {
    dma_rocr_address_t address;
    uint32_t gpu_id;
    uint32_t host_engines; /* numbers 0 and up; */
    uint32_t xgmi_engines; /* the numbers after them */
    bool by_number;        /* not every engine may be used, so queues must name theirs */
    /* Must a provider not be used? Then *why, of DMA_PROVIDER_WHY_BYTES, says why. NULL: all may be used. */
    bool (*refuses)(void *arg, const char *provider, char *why);
    void *refuses_arg;
} dma_provider_gpu_t;

typedef struct dma_provider_queue {
    uint64_t id;
    void *ring; /* zeroed */
    uint64_t ring_bytes;
    uint64_t *read_ptr;
    uint64_t *write_ptr;
    uint64_t *doorbell;
    volatile int64_t *error; /* not 0: the queue has failed; NULL: this provider does not report errors */
    void *pointers;          /* this and the next member: private to the provider */
    uint64_t handle;
} dma_provider_queue_t;

/* The driver, or a thread of its runtime, writes the word at any time. */
static inline bool dma_provider_queue_failed(const dma_provider_queue_t *queue)
{
    return queue->error && __atomic_load_n(queue->error, __ATOMIC_ACQUIRE);
}

/* The type of each provider begins with this. */
typedef struct dma_provider {
    const struct dma_provider_ops *ops;
    bool names_engines; /* can create a queue on an engine with a given number */
} dma_provider_t;

typedef struct dma_provider_ops {
    const char *name;

    /* On failure `why`, of DMA_PROVIDER_WHY_BYTES, says why this provider has no queues. */
    dma_status_t (*open)(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why);
    /* All queues have been destroyed and all memory has been freed. */
    void (*close)(dma_provider_t *provider);

    /* Allocates zeroed host memory of whole pages that the GPU may read and write. NULL: no memory. */
    void *(*alloc)(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr);
    void (*free)(dma_provider_t *provider, void *memory, uint64_t bytes);

    /* Creates a queue of this kind with a ring of `bytes`, a power of two. The ring is executable memory, because the
     * engine fetches packets from it, and a mapping of exactly this size, because kernels refuse other rings. Its device
     * address is that of the host. The read and write pointers are equal. `engine` is used with DMA_MAP_ENGINE only,
     * which needs names_engines. DMA_UNSUPPORTED: there is no room for the queue, or it is refused for another reason;
     * *reason says which. */
    dma_status_t (*create)(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                           dma_provider_queue_t *queue, const char **reason);
    /* Destroys the queue and frees its ring. */
    void (*destroy)(dma_provider_t *provider, const dma_provider_queue_t *queue);
} dma_provider_ops_t;

extern const dma_provider_ops_t dma_provider_rocr;
extern const dma_provider_ops_t dma_provider_kfd;

/* All providers, the best first. Ends with NULL. */
extern const dma_provider_ops_t *const dma_providers[];

/* Opens a provider, unless `wanted` is not NULL, "" or "auto" and names another one. Otherwise appends the reason to `why`, of
 * DMA_PROVIDER_WHY_BYTES, which is "" before the first. */
dma_status_t dma_provider_open(const dma_provider_ops_t *ops, const char *wanted, const dma_provider_gpu_t *gpu,
                               dma_provider_t **provider, char *why);
/* Appends "name: reason" to a text of DMA_PROVIDER_WHY_BYTES, as far as there is room. */
void dma_provider_add_reason(char *why, const char *name, const char *reason);

#endif
