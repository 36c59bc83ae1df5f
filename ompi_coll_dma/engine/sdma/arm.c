/*
 * Armed programs: packets that wait in a queue for the start of their call.
 *
 *     POLL   our ready word, but for its lowest bit: the call starts, or is given up
 *     COND   the queue's go word: 0, the rest is skipped
 *     POLL   the ready word of each peer that is written to
 *     copies
 *     FENCE  the program's line := epoch
 *
 * Giving up stores 0 into the go words and then our ready word plus one: queues run on and skip, no line is written, and
 * peers' engines, which wait for the ready word without the bit, do not take it for a start.
 *
 * An engine runs one queue at a time, so a queue that waits keeps others from it, for a time slice. Programs are armed only on
 * engines that serve no one else of the communicator (dma_map_pick_t.may_wait), one queue for each program, all of them or
 * none: ranks of one call do not wait for each other's slices. Other calls, and other processes, are on the same engines, and
 * what we wait for may have to wait for one of them: that engines take turns is what this stands on. The own block has no
 * engine of that kind: it goes on the first queue, before the wait for that queue's peer.
 *
 * A program that does not fit into one group of packets, or needs memory in between, is not armed. Nor is one stalled another
 * that was given up and that the queue has not got past for seconds: its start may still match, and the go word is shared.
 *
 * A process may end without taking anything apart. Then what is armed is given up by an exit handler, which the first arming
 * registers, so that it runs before those of the runtimes: a queue that waits for ever is a nuisance to the whole GPU. What
 * has been started waits for peers, and only they can end that.
 */
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/packet.h"
#include "engine/sdma/private.h"
#include "node/window.h"

#define BODY_DWORDS     8192 /* of a program: below what one COND covers, and a quarter of a ring */
#define START_INTERVAL  16   /* clocks between two looks for the start */
#define GIVE_UP_SECONDS 2.0

_Static_assert(BODY_DWORDS <= DMA_PACKET_COND_MAX, "one COND covers a program");

/* What is armed in this process: the one thing that an exit handler can look for. */
static struct {
    pthread_mutex_t lock;
    dma_sdma_binding_t *list;
    bool registered;
} armed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The packets of a program, as the engine would be given them, in memory of ours: their number, or 0. */
static uint32_t draft(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, dma_queue_t *queue,
                      uint32_t *packets, uint32_t *body)
{
    uint64_t read = 0, write = 0, doorbell = 0;
    dma_ring_memory_t memory = {.ring = body,
                                .bytes = 2 * BODY_DWORDS * sizeof(*body),
                                .read_ptr = &read,
                                .write_ptr = &write,
                                .doorbell = &doorbell};
    dma_queue_t paper = {.step_addr = queue->step_addr, .step = queue->step};
    dma_lower_target_t to = dma_sdma_lower_target(b, &paper, index);
    dma_lower_t at = {0};

    to.ready = b->ready;
    if (dma_ring_init(&paper.ring, &memory) != DMA_OK || dma_lower_temps(run, &run->plan->progs[index], &to) ||
        dma_lower_program(run, &run->plan->progs[index], &to, &at) != DMA_OK) {
        return 0;
    }
    *packets = (uint32_t)paper.ring.unpublished_packets;
    return (uint32_t)(paper.ring.reserved / sizeof(*body));
}

/* One program, stalled a start and a go; false: it does not fit. */
static bool put(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, dma_queue_t *queue, uint32_t *body)
{
    uint32_t packets, dwords = draft(b, run, index, queue, &packets, body), *p;

    if (!dwords || dwords > BODY_DWORDS ||
        dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS + DMA_PACKET_COND_DWORDS + dwords, packets + 2, &p) !=
            DMA_OK) {
        return false;
    }
    p += dma_packet_poll(p, b->ready[b->rank], DMA_PACKET_EQUAL, dma_ready_start(run->epoch), ~UINT32_C(1),
                         START_INTERVAL);
    p += dma_packet_cond(p, queue->go_addr, 1, dwords);
    memcpy(p, body, dwords * sizeof(*p));
    return true;
}

/* Queues of our own for all programs of a plan but that of the own block, which has none of its own. */
static bool get_queues(dma_sdma_binding_t *b, const dma_run_t *run)
{
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        int link = run->plan->progs[i].link;

        if (link == b->rank || b->armed_queues[i]) {
            continue;
        }
        if (!b->picks[link].may_wait ||
            !(b->armed_queues[i] = dma_queue_get_exclusive(&b->unit->queues, &b->picks[link], b->nodes[link]))) {
            return false;
        }
    }
    return run->plan->nprogs > 1 && b->armed_queues[1];
}

/* Stores alone: engines run on by themselves. */
static void give_up(dma_sdma_binding_t *b, _Atomic uint32_t *ready)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            atomic_store_explicit(b->armed_queues[i]->go, 0, memory_order_relaxed);
        }
    }
    /* release: an engine that sees this sees the go words */
    atomic_store_explicit(ready, dma_ready_start(b->armed) + 1, memory_order_release);
}

static void at_exit(void)
{
    /* A thread that holds the lock while the process ends is not waited for. */
    if (pthread_mutex_trylock(&armed.lock)) {
        return;
    }
    for (dma_sdma_binding_t *b = armed.list; b; b = b->next_armed) {
        _Atomic uint32_t *ready = &dma_window_ready(b->window, b->rank)->word;

        /* A start is not given up: peers may be counting on it. Nor is anything by a child, which comes here as well. */
        if (dma_queues_is_owner(&b->unit->queues) &&
            atomic_load_explicit(ready, memory_order_relaxed) != dma_ready_start(b->armed)) {
            give_up(b, ready);
        }
    }
    pthread_mutex_unlock(&armed.lock);
}

static void enlist(dma_sdma_binding_t *b)
{
    pthread_mutex_lock(&armed.lock);
    if (!armed.registered) {
        armed.registered = !atexit(at_exit);
    }
    if (!b->in_exit_list) {
        b->next_armed = armed.list;
        armed.list = b;
        b->in_exit_list = true;
    }
    pthread_mutex_unlock(&armed.lock);
}

static void delist(dma_sdma_binding_t *b)
{
    dma_sdma_binding_t **link = &armed.list;

    pthread_mutex_lock(&armed.lock);
    while (*link && *link != b) {
        link = &(*link)->next_armed;
    }
    if (*link) {
        *link = b->next_armed;
    }
    b->in_exit_list = false;
    pthread_mutex_unlock(&armed.lock);
}

static bool all_idle(const dma_sdma_binding_t *b)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i] && dma_ring_idle(&b->armed_queues[i]->ring) != DMA_OK) {
            return false;
        }
    }
    return true;
}

dma_status_t dma_sdma_arm(const dma_run_t *run)
{
    dma_sdma_binding_t *b = dma_sdma_binding(run->binding);
    uint32_t *body;
    bool fits;

    if (!b->ready || !dma_queues_is_owner(&b->unit->queues)) {
        return DMA_UNSUPPORTED;
    }
    if (b->stalled && !all_idle(b)) {
        b->ready = NULL; /* an engine as late as that is none to arm on; its queues stay until the end */
        return DMA_UNSUPPORTED;
    }
    if (!get_queues(b, run)) {
        dma_sdma_arm_release(b);
        b->ready = NULL; /* the programs of a bound engine are always the same: another time would be no better */
        return DMA_UNSUPPORTED;
    }
    if (!(body = malloc(2 * BODY_DWORDS * sizeof(*body)))) {
        return DMA_UNSUPPORTED;
    }
    fits = true;
    for (uint32_t pass = 0; pass < 2; pass++) { /* the own block first: it waits for nobody */
        for (uint32_t i = 1; fits && i < run->plan->nprogs; i++) {
            bool own = run->plan->progs[i].link == b->rank;

            if (own == (pass == 0)) {
                fits = put(b, run, i, own ? b->armed_queues[1] : b->armed_queues[i], body);
            }
        }
    }
    free(body);
    if (fits) { /* known to the exit handler before an engine can wait */
        b->armed = b->epoch = run->epoch;
        b->progs = run->plan->nprogs;
        b->window = run->window;
        b->run = NULL;
        enlist(b);
    }
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        dma_queue_t *queue = b->armed_queues[i];

        if (!queue) {
            continue;
        }
        if (!fits) {
            dma_ring_drop(&queue->ring);
            continue;
        }
        /* The engine reads the word long after the doorbell, which is a release. */
        atomic_store_explicit(queue->go, 1, memory_order_relaxed);
        dma_ring_publish(&queue->ring);
    }
    if (!fits) {
        dma_sdma_arm_release(b);
        b->ready = NULL;
    }
    return fits ? DMA_OK : DMA_UNSUPPORTED;
}

void dma_sdma_disarm(dma_gpu_binding_t *handle, _Atomic uint32_t *ready)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);
    double until = dma_now() + GIVE_UP_SECONDS;

    if (!b->armed || !dma_queues_is_owner(&b->unit->queues)) {
        return; /* nothing is, or it is another process's */
    }
    give_up(b, ready);
    while (!all_idle(b) && dma_now() < until) {
        sched_yield();
    }
    b->stalled = !all_idle(b);
    b->armed = 0;
    b->epoch = 0; /* its lines have not been written, and will not be */
    b->progs = 0;
}

/* Programs that peers have still to start stand still for as long as those like: then only what has befallen a queue counts,
 * and the clock of those that stand still begins anew. */
dma_status_t dma_sdma_arm_check(dma_sdma_binding_t *b)
{
    bool started = b->armed != 0;

    for (int r = 0; started && r < b->nranks; r++) {
        started = dma_ready_started(atomic_load_explicit(&dma_window_ready(b->window, r)->word, memory_order_relaxed),
                                    b->armed);
    }
    for (int i = 1; i <= b->nranks; i++) {
        if (!b->armed_queues[i]) {
            continue;
        }
        if (dma_queue_check(b->armed_queues[i], started ? b->unit->stuck_seconds : HUGE_VAL) != DMA_OK) {
            return DMA_ERR_ENGINE;
        }
        if (!started) {
            b->armed_queues[i]->seen_at = 0;
        }
    }
    return DMA_OK;
}

bool dma_sdma_arm_release(dma_sdma_binding_t *b)
{
    bool all = true;

    if (b->in_exit_list) {
        delist(b);
    }
    for (int i = 1; b->armed_queues && i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            all = dma_queue_put_exclusive(&b->unit->queues, b->armed_queues[i]) && all;
            b->armed_queues[i] = NULL;
        }
    }
    return all;
}
