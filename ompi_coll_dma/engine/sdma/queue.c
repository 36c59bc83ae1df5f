/* Making and sharing queues: see queue.h. */
#include "engine/sdma/queue.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_BYTES  64
#define STEPS_BYTES 4096 /* a line for each queue */
#define GO_OFFSET   32   /* in it */

_Static_assert(STEPS_BYTES / LINE_BYTES == 64, "a bit for each line");

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void *dma_queues_memory(dma_queues_t *q, uint64_t bytes, uint64_t *device_addr)
{
    dma_thunk_flags_t flags = {DMA_THUNK_NON_PAGED | DMA_THUNK_HOST_ACCESS | DMA_THUNK_EXECUTE_ACCESS |
                               DMA_THUNK_UNCACHED};
    void *memory = NULL;

    if (q->thunk.alloc(0, bytes, flags, &memory) != DMA_THUNK_SUCCESS) {
        return NULL;
    }
    if (q->thunk.map(memory, bytes, device_addr) != DMA_THUNK_SUCCESS) {
        q->thunk.free(memory, bytes);
        return NULL;
    }
    if (!*device_addr) {
        *device_addr = (uint64_t)(uintptr_t)memory; /* the same on both sides */
    }
    memset(memory, 0, bytes);
    return memory;
}

void dma_queues_memory_free(dma_queues_t *q, void *memory, uint64_t bytes)
{
    q->thunk.unmap(memory);
    q->thunk.free(memory, bytes);
}

dma_status_t dma_queues_open(dma_queues_t *q, uint32_t node, const char **reason)
{
    const char *switched = getenv("HSA_ENABLE_SDMA");
    dma_status_t status;
    uint32_t rc;

    memset(q, 0, sizeof(*q));
    if (switched && !strcmp(switched, "0")) {
        *reason = "HSA_ENABLE_SDMA=0 in the environment";
        return DMA_UNSUPPORTED;
    }
    if ((status = dma_thunk_find(&q->thunk, reason)) != DMA_OK) {
        return status;
    }
    rc = q->thunk.open();
    if (rc != DMA_THUNK_SUCCESS && rc != DMA_THUNK_ALREADY_OPENED) {
        *reason = "the kernel driver cannot be opened";
        return DMA_UNSUPPORTED;
    }
    q->node = node;
    if (!(q->steps = dma_queues_memory(q, STEPS_BYTES, &q->steps_addr))) {
        q->thunk.close();
        *reason = "no memory for queues";
        return DMA_UNSUPPORTED;
    }
    pthread_mutex_init(&q->lock, NULL);
    q->opened = true;
    return DMA_OK;
}

/* Has it work that waits? A queue that the driver has given up does not: it has stopped. */
static bool waits(dma_queue_t *queue)
{
    return dma_ring_idle(&queue->ring) == DMA_AGAIN && !(queue->error && *queue->error);
}

static void destroy(dma_queues_t *q, dma_queue_t *queue)
{
    q->thunk.destroy_queue(queue->id);
    dma_queues_memory_free(q, queue->memory, DMA_QUEUE_RING_BYTES);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

void dma_queues_close(dma_queues_t *q)
{
    dma_queue_t *next;
    bool all = true;

    if (!q->opened) {
        return;
    }
    for (dma_queue_t *queue = q->list; queue; queue = next) {
        next = queue->next;
        if (waits(queue)) {
            all = false;
        } else {
            destroy(q, queue);
        }
    }
    if (all) {
        dma_queues_memory_free(q, q->steps, STEPS_BYTES);
    }
    pthread_mutex_destroy(&q->lock);
    q->thunk.close();
    q->opened = false;
}

static uint32_t create(dma_queues_t *q, dma_map_kind_t kind, uint32_t engine, void *ring, dma_thunk_queue_t *made)
{
    if (kind == DMA_MAP_ENGINE) {
        return q->thunk.create_queue_ext(q->node, DMA_THUNK_QUEUE_SDMA_BY_ENG, 100, DMA_THUNK_PRIORITY_MAXIMUM, engine,
                                         ring, DMA_QUEUE_RING_BYTES, NULL, made);
    }
    return q->thunk.create_queue(q->node, kind == DMA_MAP_XGMI ? DMA_THUNK_QUEUE_SDMA_XGMI : DMA_THUNK_QUEUE_SDMA, 100,
                                 DMA_THUNK_PRIORITY_MAXIMUM, ring, DMA_QUEUE_RING_BYTES, NULL, made);
}

/* With the lock: a new queue, or NULL. */
static dma_queue_t *make(dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    dma_queue_t *queue;
    dma_thunk_queue_t made = {0};
    dma_ring_memory_t memory;
    uint64_t unused;

    if (!~q->slots_used || !(queue = calloc(1, sizeof(*queue)))) {
        return NULL;
    }
    if (!(queue->memory = dma_queues_memory(q, DMA_QUEUE_RING_BYTES, &unused))) {
        goto free_queue;
    }
    if (create(q, kind, engine, queue->memory, &made) != DMA_THUNK_SUCCESS) {
        goto put_memory;
    }
    memory = (dma_ring_memory_t){.ring = queue->memory,
                                 .bytes = DMA_QUEUE_RING_BYTES,
                                 .read_ptr = made.read_ptr,
                                 .write_ptr = made.write_ptr,
                                 .doorbell = made.doorbell};
    if (dma_ring_init(&queue->ring, &memory) != DMA_OK) {
        goto destroy_queue;
    }
    queue->id = made.id;
    queue->error = made.error;
    queue->kind = kind;
    queue->engine = engine;
    queue->slot = (unsigned)__builtin_ctzll(~q->slots_used);
    q->slots_used |= UINT64_C(1) << queue->slot;
    queue->step_addr = q->steps_addr + LINE_BYTES * queue->slot;
    queue->go_addr = queue->step_addr + GO_OFFSET;
    queue->go = (_Atomic uint32_t *)((char *)q->steps + LINE_BYTES * queue->slot + GO_OFFSET);
    pthread_mutex_init(&queue->lock, NULL);
    queue->next = q->list;
    q->list = queue;
    return queue;

destroy_queue:
    q->thunk.destroy_queue(made.id);
put_memory:
    dma_queues_memory_free(q, queue->memory, DMA_QUEUE_RING_BYTES);
free_queue:
    free(queue);
    return NULL;
}

static dma_queue_t *find(const dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    dma_queue_t *queue = q->list;

    while (queue && (queue->own || queue->kind != kind || (kind != DMA_MAP_HOST && queue->engine != engine))) {
        queue = queue->next;
    }
    return queue;
}

/* A queue of that kind, found or made. The driver deals XGMI queues that name no engine to its engines in turn. */
static dma_queue_t *take(dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    dma_queue_t *queue = find(q, kind, engine);

    return queue ? queue : make(q, kind, engine);
}

/* The one that the fewest use. */
static dma_queue_t *least_used(const dma_queues_t *q)
{
    dma_queue_t *best = NULL;

    for (dma_queue_t *queue = q->list; queue; queue = queue->next) {
        best = !queue->own && (!best || queue->users < best->users) ? queue : best;
    }
    return best;
}

dma_queue_t *dma_queue_get(dma_queues_t *q, const dma_map_pick_t *pick, uint32_t peer, bool *shared)
{
    dma_map_kind_t kind = pick->kind;
    dma_queue_t *queue;

    pthread_mutex_lock(&q->lock);
    if (kind == DMA_MAP_ENGINE && !q->thunk.create_queue_ext) {
        kind = DMA_MAP_XGMI; /* this thunk cannot name an engine */
    }
    queue = take(q, kind, kind == DMA_MAP_ENGINE ? pick->engine : peer);
    *shared = !queue;
    for (uint32_t e = 0; !queue && kind == DMA_MAP_ENGINE && e < 32; e++) {
        if (pick->candidates >> e & 1) {
            queue = take(q, kind, e);
        }
    }
    if (!queue) {
        queue = least_used(q);
    }
    if (queue) {
        queue->users++;
    }
    pthread_mutex_unlock(&q->lock);
    return queue;
}

dma_queue_t *dma_queue_get_own(dma_queues_t *q, const dma_map_pick_t *pick, uint32_t peer)
{
    dma_queue_t *queue;

    if (pick->kind == DMA_MAP_ENGINE && !q->thunk.create_queue_ext) {
        return NULL; /* on which engine it would be, and whom it would share it with, nobody knows */
    }
    pthread_mutex_lock(&q->lock);
    queue = make(q, pick->kind, pick->kind == DMA_MAP_ENGINE ? pick->engine : peer);
    if (queue) {
        queue->own = true;
    }
    pthread_mutex_unlock(&q->lock);
    return queue;
}

void dma_queue_put_own(dma_queues_t *q, dma_queue_t *queue)
{
    dma_queue_t **link = &q->list;

    if (waits(queue)) {
        return;
    }
    pthread_mutex_lock(&q->lock);
    while (*link != queue) {
        link = &(*link)->next;
    }
    *link = queue->next;
    q->slots_used &= ~(UINT64_C(1) << queue->slot);
    destroy(q, queue);
    pthread_mutex_unlock(&q->lock);
}

dma_status_t dma_queue_check(dma_queue_t *queue, double seconds)
{
    double at = now();

    if (queue->error && *queue->error) {
        return DMA_ERR_ENGINE;
    }
    switch (dma_ring_idle(&queue->ring)) {
    case DMA_OK:
        queue->seen_at = 0;
        return DMA_OK;
    case DMA_AGAIN:
        break;
    default:
        return DMA_ERR_ENGINE;
    }
    if (!queue->seen_at || queue->ring.read != queue->seen_read) {
        queue->seen_at = at;
        queue->seen_read = queue->ring.read;
        return DMA_OK;
    }
    return at - queue->seen_at > seconds ? DMA_ERR_ENGINE : DMA_OK;
}
