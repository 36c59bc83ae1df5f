/*
 * User-mode SDMA queues of one GPU. They come from a provider (provider.h). There is one queue for each engine that is
 * used, and everything in this process that uses the engine shares it.
 *
 * An engine has a few queues for all processes of the node together. If none is left, dma_queue_get returns a queue on
 * another engine that is equally suitable (dma_map_pick_t.candidates), or else any existing queue on a suitable engine.
 * That is slower, but not an error. A link is never served by an engine that is not meant for it, because the behavior is
 * not known.
 *
 * Memory of a queue. The provider owns the ring, whose size is a power of two, the read and write pointers and the doorbell.
 * In addition each queue has one cache line with three words: `step`, with which the queue, or the CPU, waits for the queue's
 * copies (dma_drain), and two of `go`, the condition of armed programs, for even and for odd epochs.
 *
 * A queue that still waits for a peer, because its communicator has failed, is never destroyed and its memory is never
 * freed: destroying it could force a reset of the whole GPU. It remains until the process ends. So does one that has fetched
 * all packets of a trial and has not come to their end.
 *
 * A thread builds and publishes packets while it holds the queue's lock. Packets in a shared queue must not wait for
 * anything except packets of the same queue.
 *
 * A forked child cannot use the queues: their memory is not mapped in the child, and the driver refuses its calls. A
 * page that the kernel clears in children (MADV_WIPEONFORK) distinguishes parent and child. In a child all functions
 * except dma_queues_close fail, and dma_queues_close leaves the queues alone.
 */
#ifndef DMA_SDMA_QUEUE_H
#define DMA_SDMA_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "dma/counters.h"
#include "engine/sdma/hw/ring.h"
#include "engine/sdma/node/map.h"
#include "engine/sdma/queues/provider.h"

#define DMA_QUEUE_RING_BYTES (UINT64_C(256) << 10) /* room for more than 70 of the largest groups (lower.c) */
#define DMA_QUEUE_TEMP       (UINT64_C(2) << 20)   /* a copy of this size takes far longer than a drain */

typedef struct dma_queue {
    struct dma_queue *next;
    pthread_mutex_t lock;
    dma_ring_t ring;
    uint64_t full_counted; /* of ring.count.full */
    dma_map_kind_t kind;
    uint32_t engine; /* DMA_MAP_ENGINE: its number; DMA_MAP_XGMI: the peer's node */
    dma_provider_queue_t made;
    bool exclusive; /* has one user and is not shared */
    unsigned slot;
    _Atomic uint32_t *step_word; /* the `step` word */
    uint64_t step_addr;          /* its device address */
    _Atomic uint32_t *go;        /* armed programs, by epoch % 2: 1: run, 0: skip */
    uint64_t go_addr;            /* of the first */
    /* The last armed programs wait until this word, without its lowest bit, is `start`. NULL: nothing was ever armed here. */
    _Atomic(const _Atomic uint32_t *) start_word;
    _Atomic uint32_t start;
    uint32_t step; /* the last value that a drain used */
    uint64_t temp; /* DMA_QUEUE_TEMP bytes of device memory for swaps, or 0 */
    /* The fence that a trial waits for. NULL: none, so whoever gives the queue back knows that all has ended that it has fetched. */
    const _Atomic uint32_t *fence_word;
    uint32_t fence;
    unsigned users;
    /* The read pointer when dma_queue_check last saw it move, and that time, which is later by the pauses in which nobody looked;
     * when the queue was nudged since, or 0; when it was looked at. */
    uint64_t seen_read;
    double seen_at, nudged_at, looked_at;
} dma_queue_t;

typedef struct dma_queues {
    dma_provider_t *provider;                 /* NULL: not open */
    _Atomic uint32_t *owner;                  /* 1 in this process, 0 in a forked child */
    const char *refusal;                      /* why the last queue could not be created, or NULL */
    char passed_over[DMA_PROVIDER_WHY_BYTES]; /* better providers that made no queue, each with the reason; or "" */
    pthread_mutex_t lock;                     /* guards the lists */
    dma_queue_t *list;
    void *steps; /* a page with one cache line per queue */
    uint64_t steps_addr;
    uint64_t slots_used; /* bit mask: lines of that page that are in use */
    uint32_t
        slot_steps[64]; /* the last step of who had the line before: a fence that comes twice is not the next one's */
    dma_counters_t *counters;     /* of the process, for nudges at the end of a queue; NULL: nobody reads them */
    struct dma_late_memory *late; /* see dma_queues_free_at_close */
} dma_queues_t;

/* Opens the best provider of a list that makes a queue for the pick `first`; see dma_provider_open for `wanted`. The queue
 * remains, so that this process has one, however many other processes take. On failure `why`, of DMA_PROVIDER_WHY_BYTES,
 * says why there are no queues. */
dma_status_t dma_queues_open(dma_queues_t *queues, const dma_provider_ops_t *const *providers, const char *wanted,
                             const dma_provider_gpu_t *gpu, const dma_map_pick_t *first, char *why);
void dma_queues_close(dma_queues_t *queues);

/* Returns false in a forked child. */
static inline bool dma_queues_is_owner(const dma_queues_t *queues)
{
    return atomic_load_explicit(queues->owner, memory_order_relaxed);
}

/* Allocates zeroed host memory of whole pages that the device may read and write. */
void *dma_queues_alloc(dma_queues_t *queues, uint64_t bytes, uint64_t *device_addr);
void dma_queues_free(dma_queues_t *queues, void *memory, uint64_t bytes);
/* For memory that a queue may still write to: dma_queues_close frees it, if no queue has work left by then. Any thread. */
void dma_queues_free_at_close(dma_queues_t *queues, void *memory, uint64_t bytes);

/* Returns a queue for a pick to the GPU whose node in the topology is `peer`. Creates it on first use. If its engine has
 * no room, the queue is on another suitable engine. NULL: there is no queue, not even one to share. */
dma_queue_t *dma_queue_get(dma_queues_t *queues, const dma_map_pick_t *pick, uint32_t peer);
/* Releases one use. The queue remains for the next user of its engine. */
void dma_queue_put(dma_queues_t *queues, dma_queue_t *queue);

/* Creates a queue for one user; NULL: the engine has no room for another queue. dma_queue_put_exclusive destroys it, or
 * returns false and leaves it if it still waits. */
dma_queue_t *dma_queue_get_exclusive(dma_queues_t *queues, const dma_map_pick_t *pick, uint32_t peer);
bool dma_queue_put_exclusive(dma_queues_t *queues, dma_queue_t *queue);

/* Whether the queue has work that may still run. Returns false for a queue that the driver has stopped after an error,
 * and in a child, which cannot read the read pointer. */
bool dma_queue_waits(const dma_queues_t *queues, dma_queue_t *queue);

/* Whether it has a fence that has not been written (fence_word). acquire: what the packets in front of the fence have written */
bool dma_queue_owes_fence(const dma_queue_t *queue);

/* Whether any queue has work that it may begin or has begun, or waits at this address for a start; from any thread. */
bool dma_queues_busy(dma_queues_t *queues, uint64_t address);

/* Publishes what is in its ring, and counts it in `counters`, which may be NULL. With its lock. */
void dma_queue_publish(dma_queue_t *queue, dma_counters_t *counters);

/* DMA_OK, or DMA_ERR_ENGINE: the queue has an error, or has work and has made no progress for `seconds`, although it was
 * nudged (dma_ring_nudge) in that time. The time between two looks counts for at most an eighth of them. HUGE_VAL: an exclusive
 * queue may stand still, and a shared one is not looked at. With its lock. `counters` may be NULL. */
dma_status_t dma_queue_check(dma_queue_t *queue, double seconds, dma_counters_t *counters);

/* For a wait of a bounded time: nudges the queue at short intervals as long as it has work and does not move. With its lock. */
void dma_queue_nudge(dma_queue_t *queue, dma_counters_t *counters);

/* Nudges all queues that seem to have work, and waits for them for a moment: only what really waits does so afterwards. */
void dma_queues_settle(dma_queues_t *queues);

#endif
