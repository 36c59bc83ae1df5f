/* Trials of packets: see trial.h. */
#include "engine/sdma/proof/trial.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "engine/sdma/hw/packet.h"

#define SCRATCH_BYTES 4096 /* one page: the places, and a cache line for each word */
#define FENCE_AT      1024
#define TRIGGER_AT    1088 /* the word that a POLL waits for */
#define EPOCH         1u   /* of the trigger */
#define WAIT_INTERVAL 16   /* clocks between two looks of a POLL, as in an armed program */
#define WATCH_US      20   /* between two looks whether a packet that should wait does so */

#define WRONG "wrong data"
#define EARLY "a POLL ends before its word has the value"

static _Atomic uint32_t *word(const dma_trial_t *t, size_t at)
{
    return (_Atomic uint32_t *)(void *)(t->host + at);
}

static unsigned char *pattern(const dma_trial_t *t, int i)
{
    return t->host + DMA_TRIAL_PLACE_BYTES * i;
}

static uint64_t pattern_addr(const dma_trial_t *t, int i)
{
    return t->addr + DMA_TRIAL_PLACE_BYTES * (unsigned)i;
}

/* Publishes packets with a fence behind them. */
static const char *submit(dma_trial_t *t, const uint32_t *packets, uint32_t dwords)
{
    uint32_t *p;

    if (dma_ring_reserve(&t->queue->ring, dwords + DMA_PACKET_FENCE_DWORDS, 8, &p) != DMA_OK) {
        return "the ring is full";
    }
    memcpy(p, packets, dwords * sizeof(*p));
    dma_packet_fence(p + dwords, t->addr + FENCE_AT, ++t->done);
    t->queue->fence_word = word(t, FENCE_AT);
    t->queue->fence = t->done;
    dma_ring_publish(&t->queue->ring);
    return NULL;
}

static const char *await(dma_trial_t *t)
{
    const dma_provider_queue_t *made = &t->queue->made;
    double until = dma_now() + t->seconds;
    const char *fault;

    while (dma_queue_owes_fence(t->queue)) {
        if ((fault = dma_fault_seen(&t->unit->fault))) {
            snprintf(t->reason, sizeof(t->reason), "%s", fault);
            return t->reason;
        }
        if (dma_provider_queue_failed(made)) {
            return "the driver has stopped the queue";
        }
        if (dma_now() > until) {
            return DMA_TRIAL_HANGS;
        }
        (void)dma_queue_check(t->queue, t->seconds, NULL); /* its doorbell may have been lost */
        sched_yield();
    }
    t->queue->fence_word = NULL;
    return NULL;
}

/* Copies between the patterns in the scratch memory and places elsewhere. */
static const char *stage(dma_trial_t *t, bool there)
{
    uint32_t packets[DMA_TRIAL_PLACES * DMA_PACKET_COPY_DWORDS], n = 0;
    const char *wrong;

    for (int i = 0; i < DMA_TRIAL_PLACES; i++) {
        uint64_t here = pattern_addr(t, i), place = t->places[i];

        if (place != here) {
            n += dma_packet_copy(packets + n, t->unit->gen, there ? place : here, there ? here : place,
                                 DMA_TRIAL_PLACE_BYTES);
        }
    }
    if (n == 0) {
        return NULL;
    }
    wrong = submit(t, packets, n);
    return wrong ? wrong : await(t);
}

/* Fills each place with a pattern of its own, and publishes packets. */
static const char *start(dma_trial_t *t, const uint32_t *packets, uint32_t dwords)
{
    const char *wrong;

    for (int i = 0; i < DMA_TRIAL_PLACES; i++) {
        memset(pattern(t, i), 0x11 * (i + 1), DMA_TRIAL_PLACE_BYTES);
    }
    wrong = stage(t, true);
    return wrong ? wrong : submit(t, packets, dwords);
}

/* Waits for them. The places are in the scratch memory then, for `holds`. */
static const char *finish(dma_trial_t *t)
{
    const char *wrong = await(t);

    return wrong ? wrong : stage(t, false);
}

static const char *run(dma_trial_t *t, const uint32_t *packets, uint32_t dwords)
{
    const char *wrong = start(t, packets, dwords);

    return wrong ? wrong : finish(t);
}

/* Whether place i completely contains the pattern of place `from`. */
static bool holds(const dma_trial_t *t, int i, int from)
{
    for (int k = 0; k < DMA_TRIAL_PLACE_BYTES; k++) {
        if (pattern(t, i)[k] != 0x11 * (from + 1)) {
            return false;
        }
    }
    return true;
}

static uint32_t copy_packet(const dma_trial_t *t, uint32_t *packets)
{
    return dma_packet_copy(packets, t->unit->gen, t->places[1], t->places[0], DMA_TRIAL_PLACE_BYTES);
}

const char *dma_trial_copy(dma_trial_t *t, uint64_t bytes)
{
    const dma_gen_t gen = {.max_copy = bytes};
    bool large = bytes > DMA_TRIAL_PLACE_BYTES;
    uint32_t packets[DMA_PACKET_COPY_DWORDS];
    const char *wrong = run(t, packets, dma_packet_copy(packets, &gen, t->places[1], t->places[0], bytes));

    return wrong ? wrong : holds(t, 1, 0) && holds(t, 2, 2) && holds(t, 3, large ? 2 : 3) ? NULL : WRONG;
}

/* Two counts of 8 bytes each, the second one not before the first, and nothing around them. */
static const char *timestamp(dma_trial_t *t)
{
    uint32_t packets[2 * DMA_PACKET_TIMESTAMP_DWORDS], n;
    uint64_t first, second;
    const char *wrong;

    n = dma_packet_timestamp(packets, t->places[1]);
    n += dma_packet_timestamp(packets + n, t->places[1] + DMA_PACKET_TIMESTAMP_ALIGN);
    if ((wrong = run(t, packets, n))) {
        return wrong;
    }
    memcpy(&first, pattern(t, 1), sizeof(first));
    memcpy(&second, pattern(t, 1) + DMA_PACKET_TIMESTAMP_ALIGN, sizeof(second));
    memset(pattern(t, 1), 0x22, sizeof(first));
    memset(pattern(t, 1) + DMA_PACKET_TIMESTAMP_ALIGN, 0x22, sizeof(second));
    return first && second >= first && holds(t, 0, 0) && holds(t, 1, 1) && holds(t, 2, 2) ? NULL : WRONG;
}

static const char *swap(dma_trial_t *t)
{
    uint32_t packets[DMA_PACKET_SWAP_DWORDS];
    uint32_t n = dma_packet_swap(packets, t->unit->gen, t->places[1], t->places[0], DMA_TRIAL_PLACE_BYTES);
    const char *wrong = run(t, packets, n);

    return wrong ? wrong : holds(t, 1, 0) && holds(t, 0, 1) && holds(t, 2, 2) ? NULL : WRONG;
}

static const char *broadcast(dma_trial_t *t)
{
    uint32_t packets[DMA_PACKET_BROADCAST_DWORDS];
    uint32_t n =
        dma_packet_broadcast(packets, t->unit->gen, t->places[1], t->places[3], t->places[0], DMA_TRIAL_PLACE_BYTES);
    const char *wrong = run(t, packets, n);

    return wrong ? wrong : holds(t, 1, 0) && holds(t, 3, 0) && holds(t, 2, 2) ? NULL : WRONG;
}

/* A strided copy at odd addresses must move its rows and nothing between them. */
static const char *strides(dma_trial_t *t)
{
    dma_rect_t r = {
        .dst = t->places[1] + 5, .src = t->places[0] + 3, .dst_pitch = 12, .src_pitch = 20, .row_bytes = 6, .rows = 9};
    uint32_t packets[DMA_PACKET_RECT_DWORDS], element;
    const char *wrong = dma_rect_unfit(t->unit->gen, &r, &element);

    wrong = wrong ? wrong : run(t, packets, dma_packet_rect(packets, &r, element));
    if (wrong || !holds(t, 0, 0) || !holds(t, 2, 2)) {
        return wrong ? wrong : WRONG;
    }
    for (unsigned k = 0; k < DMA_TRIAL_PLACE_BYTES; k++) {
        bool moved = k >= 5 && k < 5 + 9 * 12 && (k - 5) % 12 < 6;

        if (pattern(t, 1)[k] != (moved ? 0x11 : 0x22)) {
            return WRONG;
        }
    }
    return NULL;
}

/* Whether the packets have ended while they should wait. */
static bool ends_early(const dma_trial_t *t)
{
    double until = dma_now() + t->hold;

    while (dma_now() < until) {
        if (!dma_queue_owes_fence(t->queue)) {
            return true;
        }
        usleep(WATCH_US);
    }
    return !dma_queue_owes_fence(t->queue);
}

/* A copy behind a POLL must not run before the host has released it, and must run then. */
static const char *poll(dma_trial_t *t)
{
    uint32_t packets[DMA_PACKET_POLL_DWORDS + DMA_PACKET_COPY_DWORDS], n;
    const char *wrong = NULL;

    for (unsigned i = 0; i < t->rounds && !wrong; i++) {
        dma_trigger_prepare(word(t, TRIGGER_AT), EPOCH); /* the doorbell is a release store */
        n = dma_packet_poll(packets, t->addr + TRIGGER_AT, DMA_PACKET_EQUAL, dma_trigger_go(EPOCH), UINT32_MAX,
                            WAIT_INTERVAL);
        n += copy_packet(t, packets + n);
        if ((wrong = start(t, packets, n))) {
            break;
        }
        if (ends_early(t)) {
            return EARLY;
        }
        dma_trigger_release(word(t, TRIGGER_AT), EPOCH);
        wrong = finish(t);
        wrong = wrong ? wrong : holds(t, 1, 0) ? NULL : WRONG;
    }
    return wrong;
}

/* A copy behind a conditional execution must run if the word matches, and must not run otherwise. */
static const char *condition(dma_trial_t *t, uint32_t go)
{
    uint32_t packets[DMA_PACKET_COND_DWORDS + DMA_PACKET_COPY_DWORDS], n;
    const char *wrong;

    atomic_store_explicit(t->queue->go, go, memory_order_relaxed); /* the doorbell is a release store */
    n = dma_packet_cond(packets, t->queue->go_addr, 1, DMA_PACKET_COPY_DWORDS);
    n += copy_packet(t, packets + n);
    wrong = run(t, packets, n);
    return wrong ? wrong : holds(t, 1, go ? 0 : 1) ? NULL : "the condition is not obeyed";
}

/* The packets of an armed program, as in arm.c. */
static uint32_t armed_packets(const dma_trial_t *t, uint32_t *packets)
{
    uint32_t n = dma_packet_poll(packets, t->addr + TRIGGER_AT, DMA_PACKET_EQUAL, dma_trigger_go(EPOCH),
                                 dma_trigger_mask(), WAIT_INTERVAL);

    n += dma_packet_cond(packets + n, t->queue->go_addr, 1, DMA_PACKET_COPY_DWORDS);
    return n + copy_packet(t, packets + n);
}

/* An armed program must copy when it is let go, and not before; one that is revoked must not copy. */
static const char *armed(dma_trial_t *t, bool revoke)
{
    uint32_t packets[DMA_PACKET_POLL_DWORDS + DMA_PACKET_COND_DWORDS + DMA_PACKET_COPY_DWORDS];
    _Atomic uint32_t *trigger = word(t, TRIGGER_AT);
    const char *wrong;

    dma_trigger_prepare(trigger, EPOCH); /* the doorbell is a release store */
    atomic_store_explicit(t->queue->go, 1, memory_order_relaxed);
    if ((wrong = start(t, packets, armed_packets(t, packets)))) {
        return wrong;
    }
    if (revoke) {
        (void)dma_trigger_claim(trigger, EPOCH); /* does not let it go */
    }
    if (ends_early(t)) {
        return EARLY;
    }
    if (revoke) {
        atomic_store_explicit(t->queue->go, 0, memory_order_relaxed);
        dma_trigger_revoke(trigger, EPOCH);
    } else {
        dma_trigger_release(trigger, EPOCH);
    }
    wrong = finish(t);
    return wrong ? wrong : holds(t, 1, revoke ? 1 : 0) ? NULL : revoke ? "a revoked program is not skipped" : WRONG;
}

static const char *prelaunch(dma_trial_t *t)
{
    const char *wrong = condition(t, 0);

    wrong = wrong ? wrong : condition(t, 1);
    for (unsigned i = 0; i < 2 * t->rounds && !wrong; i++) {
        wrong = armed(t, i % 2 == 0);
    }
    return wrong;
}

const dma_trial_packet_t dma_trial_packets[DMA_TRIAL_PACKETS] = {
    {DMA_GEN_TIMESTAMP, DMA_RECORD_TIMESTAMP, timestamp},
    {DMA_GEN_RECT, DMA_RECORD_STRIDES, strides},
    {DMA_GEN_BROADCAST, DMA_RECORD_BROADCAST, broadcast},
    {DMA_GEN_SWAP, DMA_RECORD_SWAP, swap},
    {DMA_GEN_POLL, DMA_RECORD_POLL, poll},
    {DMA_GEN_COND, DMA_RECORD_PRELAUNCH, prelaunch},
};

bool dma_trial_begin(dma_trial_t *t, dma_sdma_unit_t *unit)
{
    t->unit = unit;
    t->host = dma_queues_alloc(&unit->queues, SCRATCH_BYTES, &t->addr);
    for (int i = 0; i < DMA_TRIAL_PLACES && t->host; i++) {
        t->places[i] = pattern_addr(t, i);
    }
    return t->host;
}

void dma_trial_end(dma_trial_t *t)
{
    if (!t->host) {
        return;
    }
    if (t->late) {
        dma_queues_free_at_close(&t->unit->queues, t->host, SCRATCH_BYTES);
    } else {
        dma_queues_free(&t->unit->queues, t->host, SCRATCH_BYTES);
    }
}
