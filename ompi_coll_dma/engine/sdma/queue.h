/*
 * User-mode SDMA queues of one GPU: from a provider (provider.h), one for each engine that is wanted, shared by everything
 * in this process that uses the engine.
 *
 * An engine has room for a few queues of all processes of the node together. Where there is none left, a queue on another
 * engine that would do serves (dma_map_pick_t's candidates), then any of those that we have on such an engine: slower,
 * never an error. What an engine does for a link that it is not meant for is not known; so there is none without.
 *
 * Memory of a queue: the ring is an allocation of its exclusive, an exact power of two, in host memory. Pointers and doorbell
 * are the provider's. Two words of a line of the queue's exclusive: `step`, for waiting for its exclusive copies, and `go`.
 *
 * A queue that still waits for somebody, because its communicator has failed under it, is never destroyed and its memory
 * never freed: that could cost the whole GPU a reset. It is left to the end of the process.
 *
 * The holder of a queue's lock builds packets and publishes them. Nothing that waits for anything but the queue's exclusive
 * packets may be put into a shared queue.
 *
 * A forked child has none of this: the memory is not there for it, and the driver does not listen to it. A page that the
 * kernel wipes in children tells it so: there all functions but dma_queues_close fail, and that one touches no queue.
 */
#ifndef DMA_SDMA_QUEUE_H
#define DMA_SDMA_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/sdma/map.h"
#include "engine/sdma/provider.h"
#include "engine/sdma/ring.h"

#define DMA_QUEUE_RING_BYTES (UINT64_C(256) << 10)
#define DMA_QUEUE_TEMP       (UINT64_C(2) << 20)

typedef struct dma_queue {
    struct dma_queue *next;
    pthread_mutex_t lock;
    dma_ring_t ring;
    dma_map_kind_t kind;
    uint32_t engine; /* DMA_MAP_ENGINE; DMA_MAP_XGMI: for which peer */
    void *memory;
    dma_provider_queue_t made;
    bool exclusive; /* of one user: not shared */
    unsigned slot;
    uint64_t step_addr;   /* of a word for waiting for its exclusive copies, as the device sees it */
    _Atomic uint32_t *go; /* armed programs: 1: run, 0: do nothing */
    uint64_t go_addr;
    uint32_t step; /* last value given out */
    uint64_t temp; /* DMA_QUEUE_TEMP bytes of device memory for exchanges, or 0 */
    unsigned users;
    /* what dma_queue_stuck has seen last */
    uint64_t seen_read;
    double seen_at;
} dma_queue_t;

typedef struct dma_queues {
    dma_provider_t *provider; /* NULL: not open */
    _Atomic uint32_t *owner;  /* 1, and 0 in a forked child */
    const char *refusal;      /* why a queue was not made, the last time; or NULL */
    pthread_mutex_t lock;     /* guards the list */
    dma_queue_t *list;
    void *steps; /* a page for step words */
    uint64_t steps_addr;
    uint64_t slots_used; /* bit mask: lines of that page */
    void *late_memory;   /* see dma_queues_free_at_close */
    uint64_t late_memory_bytes;
} dma_queues_t;

/* From the first provider of a list, ended by NULL, that works; `wanted` as dma_provider_open has it. On failure `why`, of
 * DMA_PROVIDER_WHY_BYTES, says why there are no queues here. */
dma_status_t dma_queues_open(dma_queues_t *queues, const dma_provider_ops_t *const *providers, const char *wanted,
                             const dma_provider_gpu_t *gpu, char *why);
void dma_queues_close(dma_queues_t *queues);

/* False in a forked child. */
static inline bool dma_queues_is_owner(const dma_queues_t *queues)
{
    return atomic_load_explicit(queues->owner, memory_order_relaxed);
}

/* Zeroed host memory that the device may read, write and fetch packets from; of whole pages. */
void *dma_queues_alloc(dma_queues_t *queues, uint64_t bytes, uint64_t *device_addr);
void dma_queues_free(dma_queues_t *queues, void *memory, uint64_t bytes);
/* A queue may still write there: freed with the queues, if they have all come to their ends then. Once. */
void dma_queues_free_at_close(dma_queues_t *queues, void *memory, uint64_t bytes);

/* A queue for a pick, to the GPU with the kernel's number `peer`, made on first use. NULL: not even one to share. *shared:
 * it is not on the engine that was wanted. */
dma_queue_t *dma_queue_get(dma_queues_t *queues, const dma_map_pick_t *pick, uint32_t peer, bool *shared);
/* One user less. The queue stays, for whoever wants its engine next. */
void dma_queue_put(dma_queues_t *queues, dma_queue_t *queue);

/* A queue for one user, and its end. NULL: there is no room for another queue. false: it still waits, and is left. */
dma_queue_t *dma_queue_get_exclusive(dma_queues_t *queues, const dma_map_pick_t *pick, uint32_t peer);
bool dma_queue_put_exclusive(dma_queues_t *queues, dma_queue_t *queue);

/* Has it work that waits? A queue that the driver has given up does not: it has stopped. A child has none, and its parent's
 * read pointer is not to be had there. */
bool dma_queue_waits(const dma_queues_t *queues, dma_queue_t *queue);

/* DMA_OK, or DMA_ERR_ENGINE: the queue has an error, or has not moved for so many seconds though it has work. */
dma_status_t dma_queue_check(dma_queue_t *queue, double seconds);

#endif
