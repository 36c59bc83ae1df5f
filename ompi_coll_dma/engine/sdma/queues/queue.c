/* Creation and sharing of queues: see queue.h. */
#include "engine/sdma/queues/queue.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "dma/clock.h"
#include "node/pause.h"

#define LINE_BYTES  64
#define STEPS_BYTES 4096 /* a page with one cache line per queue */
#define GO_OFFSET   32   /* of the go words in the line */

/* Far longer than an engine takes from packet to packet; then twice as long, and so on. */
#define NUDGE_SECONDS  0.01
#define SETTLE_SECONDS 0.2
#define LOOKS          8 /* at least, in the time after which a queue counts as broken */

_Static_assert(STEPS_BYTES / LINE_BYTES == 64, "a bit for each line");

void *dma_queues_alloc(dma_queues_t *q, uint64_t bytes, uint64_t *device_addr)
{
    return dma_queues_is_owner(q) ? q->provider->ops->alloc(q->provider, bytes, device_addr) : NULL;
}

void dma_queues_free(dma_queues_t *q, void *memory, uint64_t bytes)
{
    if (dma_queues_is_owner(q)) {
        q->provider->ops->free(q->provider, memory, bytes);
    }
}

/* A list. */
struct dma_late_memory {
    struct dma_late_memory *next;
    void *memory;
    uint64_t bytes;
};

/* If this machine has no room for the note, the memory is left to the end of the process. */
void dma_queues_free_at_close(dma_queues_t *q, void *memory, uint64_t bytes)
{
    struct dma_late_memory *late = malloc(sizeof(*late));

    if (late) {
        pthread_mutex_lock(&q->lock); /* communicators end in several threads */
        *late = (struct dma_late_memory){.next = q->late, .memory = memory, .bytes = bytes};
        q->late = late;
        pthread_mutex_unlock(&q->lock);
    }
}

static void end_late_memory(dma_queues_t *q, bool unused)
{
    struct dma_late_memory *late;

    while ((late = q->late)) {
        q->late = late->next;
        if (unused) {
            q->provider->ops->free(q->provider, late->memory, late->bytes);
        }
        free(late);
    }
}

/* Creates a word that is 1 here and becomes 0 in forked children. NULL: the kernel does not support MADV_WIPEONFORK. */
static _Atomic uint32_t *make_owner_word(void)
{
    _Atomic uint32_t *word = mmap(NULL, sizeof(*word), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (word == MAP_FAILED) {
        return NULL;
    }
    if (madvise((void *)word, sizeof(*word), MADV_WIPEONFORK)) {
        munmap((void *)word, sizeof(*word));
        return NULL;
    }
    atomic_init(word, 1);
    return word;
}

bool dma_queue_owes_fence(const dma_queue_t *queue)
{
    return queue->fence_word && atomic_load_explicit(queue->fence_word, memory_order_acquire) != queue->fence;
}

bool dma_queue_waits(const dma_queues_t *q, dma_queue_t *queue)
{
    return dma_queues_is_owner(q) && (dma_ring_idle(&queue->ring) == DMA_AGAIN || dma_queue_owes_fence(queue)) &&
           !dma_provider_queue_failed(&queue->made);
}

static void destroy(dma_queues_t *q, dma_queue_t *queue)
{
    q->slot_steps[queue->slot] = queue->step;
    if (dma_queues_is_owner(q)) {
        q->provider->ops->destroy(q->provider, &queue->made);
    }
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

/* Closes the provider if nothing of it is in use. In a child the provider belongs to the parent. */
static void close_provider(dma_queues_t *q, bool unused)
{
    unused = unused && dma_queues_is_owner(q);
    end_late_memory(q, unused);
    if (unused) {
        q->provider->ops->free(q->provider, q->steps, STEPS_BYTES);
        q->provider->ops->close(q->provider);
    }
    q->provider = NULL;
}

void dma_queues_close(dma_queues_t *q)
{
    dma_queue_t *next;
    bool all = true;

    if (!q->provider) {
        return;
    }
    dma_queues_settle(q);
    for (dma_queue_t *queue = q->list; queue; queue = next) {
        next = queue->next;
        if (dma_queue_waits(q, queue)) {
            all = false;
        } else {
            destroy(q, queue);
        }
    }
    close_provider(q, all);
    munmap((void *)q->owner, sizeof(*q->owner));
    pthread_mutex_destroy(&q->lock);
}

/* With the lock. Creates a queue; NULL: not possible, and q->refusal says why. */
static dma_queue_t *create_queue(dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    const dma_provider_ops_t *ops = q->provider->ops;
    dma_queue_t *queue;
    dma_ring_memory_t memory;

    q->refusal = "no memory";
    if (!~q->slots_used || !(queue = calloc(1, sizeof(*queue)))) {
        return NULL;
    }
    if (ops->create(q->provider, kind, engine, DMA_QUEUE_RING_BYTES, &queue->made, &q->refusal) != DMA_OK) {
        goto free_queue;
    }
    memory = (dma_ring_memory_t){.ring = queue->made.ring,
                                 .bytes = DMA_QUEUE_RING_BYTES,
                                 .read_ptr = queue->made.read_ptr,
                                 .write_ptr = queue->made.write_ptr,
                                 .doorbell = queue->made.doorbell};
    if (dma_ring_init(&queue->ring, &memory) != DMA_OK) {
        q->refusal = "its counters do not begin equal";
        goto destroy_queue;
    }
    q->refusal = NULL;
    queue->kind = kind;
    queue->engine = engine;
    queue->slot = (unsigned)__builtin_ctzll(~q->slots_used);
    q->slots_used |= UINT64_C(1) << queue->slot;
    queue->step_addr = q->steps_addr + LINE_BYTES * queue->slot;
    queue->step_word = (_Atomic uint32_t *)((char *)q->steps + LINE_BYTES * queue->slot);
    queue->step = q->slot_steps[queue->slot];
    atomic_store_explicit(queue->step_word, queue->step, memory_order_relaxed); /* may have been another queue's */
    queue->go_addr = queue->step_addr + GO_OFFSET;
    queue->go = (_Atomic uint32_t *)((char *)q->steps + LINE_BYTES * queue->slot + GO_OFFSET);
    pthread_mutex_init(&queue->lock, NULL);
    queue->next = q->list;
    q->list = queue;
    return queue;

destroy_queue:
    ops->destroy(q->provider, &queue->made);
free_queue:
    free(queue);
    return NULL;
}

static dma_queue_t *find_queue(const dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    dma_queue_t *queue = q->list;

    while (queue && (queue->exclusive || queue->kind != kind || (kind != DMA_MAP_HOST && queue->engine != engine))) {
        queue = queue->next;
    }
    return queue;
}

/* Finds or creates a queue of this kind. For XGMI queues without an engine number, the driver picks engines in turn. */
static dma_queue_t *find_or_create(dma_queues_t *q, dma_map_kind_t kind, uint32_t engine)
{
    dma_queue_t *queue = find_queue(q, kind, engine);

    return queue ? queue : create_queue(q, kind, engine);
}

/* Whether an existing queue can replace a pick. Host-facing engines do not access memory of other GPUs; the other
 * engines access all memory. */
static bool can_replace(const dma_queue_t *queue, const dma_map_pick_t *pick)
{
    switch (queue->kind) {
    case DMA_MAP_HOST:
        return pick->kind == DMA_MAP_HOST;
    case DMA_MAP_ENGINE:
        return pick->kind != DMA_MAP_ENGINE || queue->engine == pick->engine || pick->candidates >> queue->engine & 1;
    default:
        return true;
    }
}

/* The suitable shared queue with the fewest users. */
static dma_queue_t *least_used(const dma_queues_t *q, const dma_map_pick_t *pick)
{
    dma_queue_t *best = NULL;

    for (dma_queue_t *queue = q->list; queue; queue = queue->next) {
        if (!queue->exclusive && can_replace(queue, pick) && (!best || queue->users < best->users)) {
            best = queue;
        }
    }
    return best;
}

dma_queue_t *dma_queue_get(dma_queues_t *q, const dma_map_pick_t *pick, uint32_t peer)
{
    dma_map_kind_t kind = pick->kind;
    dma_queue_t *queue;

    if (!dma_queues_is_owner(q)) {
        return NULL;
    }
    pthread_mutex_lock(&q->lock);
    if (kind == DMA_MAP_ENGINE && !q->provider->names_engines) {
        kind = DMA_MAP_XGMI; /* this provider cannot create a queue on a given engine */
    }
    queue = find_or_create(q, kind, kind == DMA_MAP_ENGINE ? pick->engine : peer);
    for (uint32_t e = 0; !queue && kind == DMA_MAP_ENGINE && e < 32; e++) {
        if (pick->candidates >> e & 1) {
            queue = find_or_create(q, kind, e);
        }
    }
    if (!queue) {
        queue = least_used(q, pick);
    }
    if (queue) {
        queue->users++;
    }
    pthread_mutex_unlock(&q->lock);
    return queue;
}

void dma_queue_put(dma_queues_t *q, dma_queue_t *queue)
{
    pthread_mutex_lock(&q->lock);
    queue->users--;
    pthread_mutex_unlock(&q->lock);
}

/* What is needed beside the provider, and the first queue; false: it is not to be had, and q->refusal says why. */
static bool set_up(dma_queues_t *q, const dma_map_pick_t *first)
{
    dma_queue_t *queue;

    q->refusal = "no memory";
    if (!(q->owner = make_owner_word())) {
        return false;
    }
    if (!(q->steps = dma_queues_alloc(q, STEPS_BYTES, &q->steps_addr))) {
        goto unmap_owner;
    }
    pthread_mutex_init(&q->lock, NULL);
    if ((queue = dma_queue_get(q, first, 0))) {
        dma_queue_put(q, queue);
        return true;
    }
    pthread_mutex_destroy(&q->lock);
    dma_queues_free(q, q->steps, STEPS_BYTES);
unmap_owner:
    munmap((void *)q->owner, sizeof(*q->owner));
    return false;
}

dma_status_t dma_queues_open(dma_queues_t *q, const dma_provider_ops_t *const *providers, const char *wanted,
                             const dma_provider_gpu_t *gpu, const dma_map_pick_t *first, char *why)
{
    memset(q, 0, sizeof(*q));
    why[0] = '\0';
    for (; *providers; providers++) {
        if (dma_provider_open(*providers, wanted, gpu, &q->provider, why) != DMA_OK) {
            continue;
        }
        if (set_up(q, first)) {
            return DMA_OK;
        }
        dma_provider_add_reason(why, (*providers)->name, q->refusal);
        dma_provider_add_reason(q->passed_over, (*providers)->name, q->refusal);
        q->provider->ops->close(q->provider);
    }
    q->provider = NULL;
    if (!why[0]) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "there is no queue provider of this name: \"%.60s\"", wanted);
    }
    return DMA_UNSUPPORTED;
}

dma_queue_t *dma_queue_get_exclusive(dma_queues_t *q, const dma_map_pick_t *pick, uint32_t peer)
{
    dma_queue_t *queue;

    if (!dma_queues_is_owner(q) || (pick->kind == DMA_MAP_ENGINE && !q->provider->names_engines)) {
        return NULL; /* a child; or the engine would be unknown, and which queues share it */
    }
    pthread_mutex_lock(&q->lock);
    queue = create_queue(q, pick->kind, pick->kind == DMA_MAP_ENGINE ? pick->engine : peer);
    if (queue) {
        queue->exclusive = true;
    }
    pthread_mutex_unlock(&q->lock);
    return queue;
}

/* Waits for a moment until a queue that is nobody else's has fetched everything. */
static void settle(const dma_queues_t *q, dma_queue_t *queue, double until)
{
    dma_pause_t pause = {0};

    while (dma_queue_waits(q, queue) && dma_now() < until) {
        dma_queue_nudge(queue, q->counters);
        dma_pause(&pause);
    }
}

void dma_queues_settle(dma_queues_t *q)
{
    double until = dma_now() + SETTLE_SECONDS;

    for (dma_queue_t *queue = q->list; queue; queue = queue->next) {
        settle(q, queue, until);
    }
}

bool dma_queue_put_exclusive(dma_queues_t *q, dma_queue_t *queue)
{
    dma_queue_t **link = &q->list;

    settle(q, queue, dma_now() + SETTLE_SECONDS);
    if (dma_queue_waits(q, queue)) {
        return false;
    }
    pthread_mutex_lock(&q->lock);
    while (*link != queue) {
        link = &(*link)->next;
    }
    *link = queue->next;
    q->slots_used &= ~(UINT64_C(1) << queue->slot);
    destroy(q, queue);
    pthread_mutex_unlock(&q->lock);
    return true;
}

static bool same_page(uint64_t a, uint64_t b)
{
    return a / STEPS_BYTES == b / STEPS_BYTES;
}

/* Reads only what the hardware and this process write atomically. */
static bool is_busy(const dma_queue_t *queue, uint64_t address)
{
    const _Atomic uint32_t *word = atomic_load_explicit(&queue->start_word, memory_order_acquire);

    if (address - (uint64_t)(uintptr_t)queue->made.ring < DMA_QUEUE_RING_BYTES) {
        return true; /* nobody else reads there */
    }
    if (atomic_load_explicit((const _Atomic uint64_t *)queue->made.read_ptr, memory_order_relaxed) ==
        atomic_load_explicit((const _Atomic uint64_t *)queue->made.write_ptr, memory_order_relaxed)) {
        return false;
    }
    /* The lowest bit is set if they have been revoked. */
    return !word || (atomic_load_explicit(word, memory_order_relaxed) & ~UINT32_C(1)) == atomic_load(&queue->start) ||
           same_page(address, (uint64_t)(uintptr_t)word) || same_page(address, queue->go_addr);
}

bool dma_queues_busy(dma_queues_t *q, uint64_t address)
{
    bool busy = false;

    /* The lock is held while a queue is made, by calls that may wait for the caller of this function. */
    if (pthread_mutex_trylock(&q->lock)) {
        return true;
    }
    for (const dma_queue_t *queue = q->list; queue && !busy; queue = queue->next) {
        busy = is_busy(queue, address);
    }
    pthread_mutex_unlock(&q->lock);
    return busy;
}

void dma_queue_publish(dma_queue_t *queue, dma_counters_t *counters)
{
    dma_ring_t *ring = &queue->ring;

    if (counters && ring->unpublished_packets) {
        dma_counters_add(counters, DMA_COUNT_packets, ring->unpublished_packets);
        dma_counters_add(counters, DMA_COUNT_doorbells, 1);
    }
    if (counters && ring->count.full != queue->full_counted) {
        dma_counters_add(counters, DMA_COUNT_rings_full, ring->count.full - queue->full_counted);
        queue->full_counted = ring->count.full;
    }
    dma_ring_publish(ring);
}

static void nudge(dma_queue_t *queue, double at, dma_counters_t *counters)
{
    uint64_t rung = queue->ring.count.doorbells;

    dma_ring_nudge(&queue->ring);
    queue->nudged_at = at;
    if (counters) {
        dma_counters_add(counters, DMA_COUNT_nudges, 1);
        dma_counters_add(counters, DMA_COUNT_doorbells, queue->ring.count.doorbells - rung);
    }
}

dma_status_t dma_queue_check(dma_queue_t *queue, double seconds, dma_counters_t *counters)
{
    double at = dma_now(), first = seconds / 2 < NUDGE_SECONDS ? seconds / 2 : NUDGE_SECONDS, still, since;

    if (dma_provider_queue_failed(&queue->made)) {
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
    if (isinf(seconds)) {
        /* Nothing in a shared queue waits. Another user may have work in it, and its clock goes on. */
        queue->seen_at = queue->exclusive ? 0 : queue->seen_at;
        return DMA_OK;
    }
    if (!queue->seen_at || queue->ring.read != queue->seen_read) {
        queue->seen_at = queue->looked_at = at;
        queue->seen_read = queue->ring.read;
        queue->nudged_at = 0;
        return DMA_OK;
    }
    /* While nobody looked it may have moved, although what shows that was lost. Its present work may be new. */
    if (at - queue->looked_at > seconds / LOOKS) {
        queue->seen_at += at - queue->looked_at - seconds / LOOKS;
    }
    queue->looked_at = at;
    still = at - queue->seen_at;
    since = queue->nudged_at ? at - queue->nudged_at : still;
    if (queue->nudged_at && still > seconds && since >= first) {
        return DMA_ERR_ENGINE;
    }
    if (since >= (queue->nudged_at ? still - since : first)) {
        nudge(queue, at, counters);
    }
    return DMA_OK;
}

void dma_queue_nudge(dma_queue_t *queue, dma_counters_t *counters)
{
    (void)dma_queue_check(queue, 1, counters);
    if (queue->nudged_at) {
        queue->seen_at = 0; /* at regular intervals: the time is short */
    }
}
