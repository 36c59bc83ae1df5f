/*
 * Armed programs: packets that wait in a queue for the start of their call.
 *
 *     POLL   our ready word without its lowest bit: the call starts or is revoked
 *     COND   the go word of the queue; if it is 0, the rest is skipped
 *     POLL   the ready word of each peer that is written to
 *     copies
 *     FENCE  the program's line := epoch
 *
 * To revoke programs, the CPU stores 0 into the go words, and then our ready word plus one. The queues continue and skip the
 * program, so no line is written. Engines of peers compare the whole ready word, including the lowest bit, so they do not
 * take the revocation for a start.
 *
 * An engine runs one queue at a time, so a waiting queue blocks the other queues of its engine for a time slice. Programs are
 * armed only on engines that serve nothing else of this communicator (dma_map_pick_t.may_wait), with one exclusive queue per
 * program. Either all programs of a run are armed or none, so the ranks of one call do not wait for each other's time slices.
 * Queues of other calls and other processes may be on the same engines, and may contain what we wait for. So arming relies
 * on the time slices of the engines. The own block has no suitable engine: it goes into the first queue, in front of the
 * wait for that queue's peer.
 *
 * A program is not armed if it does not fit into one group of packets, or if it needs temporary memory. It is also not armed
 * behind a revoked program that its queue has not skipped within seconds: the start of the revoked program may still match,
 * and both use the same go word.
 *
 * Programs with partitions (parts.c) wait, in addition, for the words of their partitions, after the start. They are taken back
 * then, too.
 *
 * A process may end without releasing anything. So an exit handler revokes everything that is armed, because a queue that
 * waits forever impairs the whole GPU. The first arming registers the handler, so it runs before the handlers of the
 * runtimes. Programs that have started are not revoked: they wait for peers, and only the peers can end that.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/packet.h"
#include "engine/sdma/private.h"
#include "node/pause.h"
#include "node/window.h"

#define BODY_DWORDS DMA_SDMA_BODY_DWORDS
/* Clocks between two reads of the ready word; longer than in a drain, because the wait is long. */
#define START_INTERVAL 16
#define REVOKE_SECONDS 2.0 /* wait for revoked programs: many time slices of an engine */

_Static_assert(BODY_DWORDS <= DMA_PACKET_COND_MAX, "one COND covers a program");

/* The bindings with armed programs in this process, for the exit handler. The only global state of the engine. */
static struct {
    pthread_mutex_t lock;
    dma_sdma_binding_t *list;
    bool registered;
} armed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Lowers a program to memory of the host. Returns the number of dwords, or 0 if the program cannot be armed. *moved: the bytes
 * that it writes. */
static uint32_t draft(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, dma_queue_t *queue,
                      uint32_t *packets, uint64_t *moved, uint32_t *body)
{
    uint64_t read = 0, write = 0, doorbell = 0;
    dma_ring_memory_t memory = {.ring = body,
                                .bytes = 2 * BODY_DWORDS * sizeof(*body),
                                .read_ptr = &read,
                                .write_ptr = &write,
                                .doorbell = &doorbell};
    dma_queue_t draft_queue = {.step_addr = queue->step_addr, .step = queue->step};
    dma_lower_target_t to = dma_sdma_lower_target(b, &draft_queue, index, run->epoch);
    dma_lower_t at = {0};

    to.ready = b->ready;
    if (dma_ring_init(&draft_queue.ring, &memory) != DMA_OK || dma_lower_temps(run, &run->plan->progs[index], &to) ||
        dma_lower_program(run, &run->plan->progs[index], &to, &at) != DMA_OK) {
        return 0;
    }
    *packets = (uint32_t)draft_queue.ring.unpublished_packets;
    *moved = draft_queue.ring.unpublished_bytes;
    return (uint32_t)(draft_queue.ring.reserved / sizeof(*body));
}

/* Reserves and builds one armed program. Returns false if it does not fit. */
static bool build(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, dma_queue_t *queue, uint64_t *bytes,
                  uint32_t *body)
{
    uint64_t moved;
    uint32_t packets, dwords = draft(b, run, index, queue, &packets, &moved, body), *p;

    if (!dwords || dwords > BODY_DWORDS ||
        dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS + DMA_PACKET_COND_DWORDS + dwords, packets + 2, &p) !=
            DMA_OK) {
        return false;
    }
    p += dma_packet_poll(p, b->ready[b->rank], DMA_PACKET_EQUAL, dma_ready_start(run->epoch), ~UINT32_C(1),
                         START_INTERVAL);
    p += dma_packet_cond(p, queue->go_addr, 1, dwords);
    memcpy(p, body, dwords * sizeof(*p));
    *bytes += moved;
    b->armed_packets += packets;
    return true;
}

/* Creates an exclusive queue for every program of a plan, except for that of the own block, which shares the first
 * queue. */
static bool create_queues(dma_sdma_binding_t *b, const dma_run_t *run)
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

/* Revokes armed programs. Only stores: the engines continue and skip by themselves. */
static void revoke(dma_sdma_binding_t *b, _Atomic uint32_t *ready)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            atomic_store_explicit(b->armed_queues[i]->go, 0, memory_order_relaxed);
        }
    }
    if (b->parts) {
        dma_sdma_parts_release(b);
    }
    /* release: an engine that sees this word also sees the go words */
    atomic_store_explicit(ready, dma_ready_start(b->armed) + 1, memory_order_release);
}

static void at_exit(void)
{
    /* If another thread holds the lock while the process ends, do not wait for it. */
    if (pthread_mutex_trylock(&armed.lock)) {
        return;
    }
    for (dma_sdma_binding_t *b = armed.list; b; b = b->next_armed) {
        _Atomic uint32_t *ready = &dma_window_ready(b->window, b->rank)->word;

        /* A run that has started is not revoked: peers may rely on it. A forked child, which runs this handler too,
         * revokes nothing. */
        if (dma_queues_is_owner(&b->unit->queues) &&
            atomic_load_explicit(ready, memory_order_relaxed) != dma_ready_start(b->armed)) {
            revoke(b, ready);
        } else if (b->parts && dma_queues_is_owner(&b->unit->queues)) {
            dma_sdma_parts_release(b); /* peers have nothing of what was not ready */
        }
    }
    pthread_mutex_unlock(&armed.lock);
}

static void exit_list_add(dma_sdma_binding_t *b)
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

static void exit_list_remove(dma_sdma_binding_t *b)
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

/* The doorbell of what is revoked may have been lost, or its read pointer may be. */
static void nudge_all(const dma_sdma_binding_t *b)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            (void)dma_queue_check(b->armed_queues[i], REVOKE_SECONDS, b->unit->counters);
        }
    }
}

static dma_status_t refuse_arming(const dma_sdma_binding_t *b, dma_reason_t reason)
{
    dma_gpu_count(b->unit->counters, DMA_COUNT_REASON + (int)reason, 1);
    return DMA_UNSUPPORTED;
}

dma_status_t dma_sdma_arm(const dma_run_t *run, uint64_t *bytes)
{
    dma_sdma_binding_t *b = dma_sdma_binding(run->binding);
    uint32_t *body;
    bool fits;

    if (!b->ready) {
        return DMA_UNSUPPORTED; /* counted when it was given up */
    }
    if (!dma_queues_is_owner(&b->unit->queues)) {
        return refuse_arming(b, DMA_REASON_sdma_arm_child);
    }
    if (b->stalled && !all_idle(b)) {
        b->ready = NULL; /* an engine this late is not armed again; its queues remain until the end */
        return refuse_arming(b, DMA_REASON_sdma_arm_late);
    }
    if (!create_queues(b, run)) {
        dma_sdma_arm_release(b, true);
        b->ready = NULL; /* the programs of a binding never change, so another attempt would fail as well */
        return refuse_arming(b, DMA_REASON_sdma_arm_queues);
    }
    if ((run->parts && !dma_sdma_parts_prepare(b, run)) || !(body = malloc(2 * BODY_DWORDS * sizeof(*body)))) {
        return refuse_arming(b, DMA_REASON_sdma_arm_memory);
    }
    *bytes = b->armed_packets = 0;
    fits = !run->parts || dma_sdma_parts_build(b, run, bytes, body);
    for (uint32_t pass = 0; !run->parts && pass < 2; pass++) { /* the own block comes first: it waits for no peer */
        for (uint32_t i = 1; fits && i < run->plan->nprogs; i++) {
            bool own = run->plan->progs[i].link == b->rank;

            if (own == (pass == 0)) {
                fits = build(b, run, i, own ? b->armed_queues[1] : b->armed_queues[i], bytes, body);
            }
        }
    }
    free(body);
    if (fits) { /* the exit handler must know the binding before an engine can wait */
        atomic_store_explicit(&b->armed, run->epoch, memory_order_relaxed);
        dma_sdma_set_run(b, run);
        b->run = NULL;
        exit_list_add(b);
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
        atomic_store_explicit(&queue->start, dma_ready_start(run->epoch), memory_order_relaxed);
        atomic_store_explicit(&queue->start_word, &dma_window_ready(b->window, b->rank)->word, memory_order_release);
        /* The engine reads the word after the doorbell, which is a release store. */
        atomic_store_explicit(queue->go, 1, memory_order_relaxed);
        dma_queue_publish(queue, b->unit->counters);
    }
    if (!fits) {
        dma_sdma_arm_release(b, true);
        b->ready = NULL;
    }
    return fits ? DMA_OK : refuse_arming(b, DMA_REASON_sdma_arm_size);
}

void dma_sdma_disarm(dma_gpu_binding_t *handle, _Atomic uint32_t *ready)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);
    double until = dma_now() + REVOKE_SECONDS;
    dma_pause_t pause = {0};

    if (!b->armed || !dma_queues_is_owner(&b->unit->queues)) {
        return; /* nothing is armed, or this is a forked child */
    }
    revoke(b, ready);
    while (!all_idle(b) && dma_now() < until) {
        nudge_all(b);
        dma_pause(&pause);
    }
    b->stalled = !all_idle(b);
    if (b->parts && !b->stalled) {
        dma_sdma_parts_restore(b);
    }
    dma_gpu_count(b->unit->counters, DMA_COUNT_packets_skipped, b->armed_packets);
    b->armed = 0;
    b->epoch = 0; /* its lines have not been written and will not be */
    b->progs = 0;
}

bool dma_sdma_arm_release(dma_sdma_binding_t *b, bool quiet)
{
    bool all = true;

    if (b->in_exit_list) {
        exit_list_remove(b);
    }
    for (int i = 1; b->armed_queues && i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            all = quiet && dma_queue_put_exclusive(&b->unit->queues, b->armed_queues[i]) && all;
            b->armed_queues[i] = NULL;
        }
    }
    return all;
}
