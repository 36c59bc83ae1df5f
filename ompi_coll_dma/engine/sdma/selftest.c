/*
 * The self-test of a unit. Packets whose behavior is not proven on every machine are tried on scratch memory before
 * they are used: conditional execution, swap, broadcast, strided copies. A packet is not used if its result is wrong or
 * if it hangs the queue.
 *
 * An engine serves the queues of all processes in turn, so a queue that seems to hang may only be late, and may write
 * later. The scratch memory is kept as long as there is such a queue.
 */
#include <sched.h>
#include <string.h>

#include "engine/sdma/packet.h"
#include "engine/sdma/private.h"

#define COPY_SECONDS  10.0 /* timeout of the plain copy, which the engine cannot do without */
#define TEST_SECONDS  2.0  /* timeout of an optional packet, without which something is slower */
#define SCRATCH_BYTES 4096 /* one page */
#define PLACE_BYTES   256  /* the scratch memory has four places of this size */

typedef struct selftest {
    dma_sdma_unit_t *unit;
    dma_queue_t *queue;
    unsigned char *host;
    uint64_t addr;
    uint32_t done;  /* the value of the last fence */
    double seconds; /* timeout of one test */
    bool late;      /* a queue may still write to the scratch memory */
} selftest_t;

static uint64_t place(const selftest_t *t, int i)
{
    return t->addr + PLACE_BYTES * (unsigned)i;
}

/* Fills each place with a pattern of its own, runs packets, and waits for a fence behind them. */
static bool run(selftest_t *t, const uint32_t *packets, uint32_t dwords)
{
    _Atomic uint32_t *fence = (_Atomic uint32_t *)(t->host + 4 * PLACE_BYTES);
    const dma_provider_queue_t *made = &t->queue->made;
    double until = dma_now() + t->seconds;
    uint32_t *p;

    for (int i = 0; i < 4; i++) {
        memset(t->host + PLACE_BYTES * i, 0x11 * (i + 1), PLACE_BYTES);
    }
    if (dma_ring_reserve(&t->queue->ring, dwords + DMA_PACKET_FENCE_DWORDS, 2, &p) != DMA_OK) {
        return false;
    }
    memcpy(p, packets, dwords * sizeof(*p));
    dma_packet_fence(p + dwords, t->addr + 4 * PLACE_BYTES, ++t->done);
    dma_ring_publish(&t->queue->ring);
    while (atomic_load_explicit(fence, memory_order_acquire) != t->done) {
        if (dma_now() > until || (made->error && *made->error)) {
            return false;
        }
        sched_yield();
    }
    return true;
}

/* Whether place i completely contains the pattern of place `from`. */
static bool holds(const selftest_t *t, int i, int from)
{
    for (int k = 0; k < PLACE_BYTES; k++) {
        if (t->host[PLACE_BYTES * i + k] != 0x11 * (from + 1)) {
            return false;
        }
    }
    return true;
}

static bool copies(selftest_t *t)
{
    uint32_t packets[DMA_PACKET_COPY_DWORDS];

    return run(t, packets, dma_packet_copy(packets, t->unit->gen, place(t, 1), place(t, 0), PLACE_BYTES)) &&
           holds(t, 1, 0) && holds(t, 2, 2);
}

static bool swaps(selftest_t *t)
{
    uint32_t packets[DMA_PACKET_SWAP_DWORDS];

    return run(t, packets, dma_packet_swap(packets, t->unit->gen, place(t, 1), place(t, 0), PLACE_BYTES)) &&
           holds(t, 1, 0) && holds(t, 0, 1) && holds(t, 2, 2);
}

static bool broadcasts(selftest_t *t)
{
    uint32_t packets[DMA_PACKET_BROADCAST_DWORDS];

    return run(t, packets,
               dma_packet_broadcast(packets, t->unit->gen, place(t, 1), place(t, 3), place(t, 0), PLACE_BYTES)) &&
           holds(t, 1, 0) && holds(t, 3, 0) && holds(t, 2, 2);
}

/* A copy behind a conditional execution must run if the word matches, and must not run otherwise. */
static bool conditions(selftest_t *t)
{
    uint32_t packets[DMA_PACKET_COND_DWORDS + DMA_PACKET_COPY_DWORDS], n;

    for (uint32_t go = 0; go < 2; go++) {
        atomic_store_explicit(t->queue->go, go, memory_order_relaxed); /* the doorbell is a release store */
        n = dma_packet_cond(packets, t->queue->go_addr, 1, DMA_PACKET_COPY_DWORDS);
        n += dma_packet_copy(packets + n, t->unit->gen, place(t, 1), place(t, 0), PLACE_BYTES);
        if (!run(t, packets, n) || !holds(t, 1, go ? 0 : 1)) {
            return false;
        }
    }
    return true;
}

/* A strided copy at odd addresses must move its rows and nothing between them. */
static bool strides(selftest_t *t)
{
    dma_rect_t r = {
        .dst = place(t, 1) + 5, .src = place(t, 0) + 3, .dst_pitch = 12, .src_pitch = 20, .row_bytes = 6, .rows = 9};
    uint32_t packets[DMA_PACKET_RECT_DWORDS], element;

    if (dma_rect_unfit(t->unit->gen, &r, &element) || !run(t, packets, dma_packet_rect(packets, &r, element)) ||
        !holds(t, 0, 0) || !holds(t, 2, 2)) {
        return false;
    }
    for (unsigned k = 0; k < PLACE_BYTES; k++) {
        bool moved = k >= 5 && k < 5 + 9 * 12 && (k - 5) % 12 < 6;

        if (t->host[PLACE_BYTES + k] != (moved ? 0x11 : 0x22)) {
            return false;
        }
    }
    return true;
}

/* Runs a test on an exclusive queue, so that a packet that hangs the queue affects nothing else. The queue is
 * destroyed afterwards, or left if it still waits. */
static bool run_exclusive(selftest_t *t, bool (*test)(selftest_t *t))
{
    dma_map_pick_t pick = dma_map_host_facing(t->unit->gen, "the self-test");
    bool works;

    if (!(t->queue = dma_queue_get_exclusive(&t->unit->queues, &pick, 0))) {
        return false;
    }
    works = test(t);
    t->late = !dma_queue_put_exclusive(&t->unit->queues, t->queue) || t->late;
    return works;
}

uint32_t dma_sdma_selftest(dma_sdma_unit_t *unit, bool *works)
{
    dma_map_pick_t pick = dma_map_host_facing(unit->gen, "the self-test");
    selftest_t t = {.unit = unit, .seconds = COPY_SECONDS};
    uint32_t features = 0;

    *works = false;
    t.host = dma_queues_alloc(&unit->queues, SCRATCH_BYTES, &t.addr);
    if (!t.host) {
        return 0;
    }
    /* This queue is kept, so that the engine has at least one queue, however many other processes take. */
    t.queue = dma_queue_get(&unit->queues, &pick, 0);
    *works = t.queue && copies(&t);
    t.late = t.queue && !*works;
    t.seconds = TEST_SECONDS;
    if (*works) {
        features |= unit->gen->has & DMA_GEN_SWAP && run_exclusive(&t, swaps) ? DMA_GPU_SWAP_PACKETS : 0;
        features |= unit->gen->has & DMA_GEN_BROADCAST && run_exclusive(&t, broadcasts) ? DMA_GPU_BCST_PACKETS : 0;
        features |= unit->gen->has & DMA_GEN_RECT && run_exclusive(&t, strides) ? DMA_GPU_SHAPES : 0;
        features |= unit->gen->has & DMA_GEN_POLL && run_exclusive(&t, conditions) ? DMA_GPU_PRELAUNCH : 0;
    }
    if (t.late) {
        dma_queues_free_at_close(&unit->queues, t.host, SCRATCH_BYTES);
    } else {
        dma_queues_free(&unit->queues, t.host, SCRATCH_BYTES);
    }
    return features;
}
