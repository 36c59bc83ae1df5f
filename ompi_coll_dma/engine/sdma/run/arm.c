/*
 * Armed programs: packets that wait in a queue for the start of their call. On each queue:
 *
 *     POLL   our trigger (engine/trigger.h), without its lowest bit: the call runs or is revoked
 *     COND   the go word of the queue for this epoch; if it is 0, the rest is skipped
 *     copies
 *     FENCE  the program's line := epoch
 *
 * No packet can be spared. The POLL is the wait for all ranks at once. The COND is the only known way to take back packets
 * that an engine may have fetched already: packets in a ring must not be changed behind the engine's back, a queue in a POLL
 * must not be destroyed, and a POLL that ends lets everything behind it run.
 *
 * To revoke programs, the CPU claims the trigger, stores 0 into the go words, and then revokes. The queues continue and skip
 * the programs, so no line is written. Programs that have been let go are not revoked: they run to their ends.
 *
 * The programs of the next run are armed while the present one runs, on the same queues, behind its programs. So at most two
 * runs are in the queues, an even and an odd epoch, and each has a trigger and go words of its own. A queue that has come to
 * the next programs waits there. This is no reason to take it for broken, although others are still at work (watch.c).
 *
 * An engine runs one queue at a time, so a waiting queue blocks the other queues of its engine for a time slice. Programs are
 * armed only on engines that serve nothing else of this communicator (dma_map_pick_t.may_wait), with one exclusive queue per
 * program. Either all programs of a run that concern other ranks are armed or none, so the ranks of one call do not wait for
 * each other's time slices. Queues of other calls and other processes may be on the same engines, and may contain what we wait
 * for. So arming relies on the time slices of the engines.
 *
 * The own block has no suitable engine, and on the queue of a peer it would double that queue's time. It is not armed:
 * dma_gpu_engine_t.start gives it to its own engine, which needs less time for that than the others to see their trigger.
 *
 * A program is not armed if it does not fit into one group of packets, or if it needs temporary memory. It is also not armed
 * behind a revoked program that its queue has not skipped within seconds: the trigger and the go words may still let that one
 * run.
 *
 * Programs with partitions (partitions.c) wait, in addition, for the words of their partitions, behind the trigger. So they are taken
 * back after they have been let go, too; and only one run of them is in the queues.
 *
 * A process may end without releasing anything. So an exit handler revokes everything that waits, because a queue that
 * waits forever impairs the whole GPU. The first arming registers the handler, so it runs before the handlers of the
 * runtimes.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/hw/packet.h"
#include "engine/sdma/private.h"
#include "node/pause.h"
#include "node/window.h"

#define BODY_DWORDS    DMA_SDMA_BODY_DWORDS
#define REVOKE_SECONDS 2.0 /* wait for revoked programs: many time slices of an engine */

_Static_assert(BODY_DWORDS <= DMA_PACKET_COND_MAX, "one COND covers a program");

/* The bindings with armed programs in this process, for the exit handler. The only global state of the engine. */
static struct {
    pthread_mutex_t lock;
    dma_sdma_binding_t *list;
    bool registered;
} armed = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Packets of a program in memory of the host. */
typedef struct draft {
    dma_queue_t queue;
    uint64_t read, write, doorbell;
} draft_t;

static bool begin_draft(draft_t *d, const dma_queue_t *queue, uint32_t *body)
{
    dma_ring_memory_t memory = {.ring = body,
                                .bytes = 2 * BODY_DWORDS * sizeof(*body),
                                .read_ptr = &d->read,
                                .write_ptr = &d->write,
                                .doorbell = &d->doorbell};

    *d = (draft_t){.queue = {.step_addr = queue->step_addr, .step = queue->step}};
    return dma_ring_init(&d->queue.ring, &memory) == DMA_OK;
}

/* Lowers a program. False: it cannot be armed. */
static bool draft(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, draft_t *d)
{
    const dma_prog_t *prog = &run->plan->progs[index];
    dma_lower_target_t to = dma_sdma_lower_target(b, &d->queue, index, run->epoch);
    dma_lower_t at = {0};

    return !dma_lower_temps(run, prog, &to) && dma_lower_program(run, prog, &to, &at) == DMA_OK;
}

/* Reserves and builds one armed program. Returns false if it does not fit. */
static bool build(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t index, uint64_t *bytes, uint32_t *body)
{
    dma_queue_t *queue = b->armed_queues[index];
    uint32_t dwords, packets, *p;
    draft_t d;

    if (!begin_draft(&d, queue, body) || !draft(b, run, index, &d)) {
        return false;
    }
    dwords = (uint32_t)(d.queue.ring.reserved / sizeof(*body));
    packets = (uint32_t)d.queue.ring.unpublished_packets;
    if (dwords > BODY_DWORDS || dma_ring_reserve(&queue->ring, DMA_PACKET_POLL_DWORDS + DMA_PACKET_COND_DWORDS + dwords,
                                                 packets + 2, &p) != DMA_OK) {
        return false;
    }
    p += dma_packet_poll(p, b->trigger + dma_window_trigger_offset(run->epoch), DMA_PACKET_EQUAL,
                         dma_trigger_go(run->epoch), dma_trigger_mask(), DMA_SDMA_START_INTERVAL);
    p += dma_packet_cond(p, queue->go_addr + run->epoch % 2 * sizeof(*queue->go), 1, dwords);
    memcpy(p, body, dwords * sizeof(*p));
    *bytes += d.queue.ring.unpublished_bytes;
    b->armed_packets += packets;
    return true;
}

static bool build_all(dma_sdma_binding_t *b, const dma_run_t *run, uint64_t *bytes, uint32_t *body)
{
    bool fits = true;

    *bytes = b->armed_packets = 0;
    if (run->parts) {
        return dma_sdma_parts_build(b, run, bytes, body);
    }
    for (uint32_t i = 1; fits && i < run->plan->nprogs; i++) {
        if (b->armed_queues[i]) {
            fits = build(b, run, i, bytes, body);
        }
    }
    return fits;
}

/* Creates an exclusive queue for every program of a plan, except for that of the own block, which is in another one's if the run
 * has partitions. */
static bool create_queues(dma_sdma_binding_t *b, const dma_run_t *run)
{
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        int link = run->plan->progs[i].link;

        if (link == b->rank && !run->parts) {
            b->own_prog = i;
        }
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

/* Revokes the armed programs of an even or of an odd epoch, unless they have been let go. Only stores: the engines continue and
 * skip by themselves. */
static bool revoke(dma_sdma_binding_t *b, uint32_t parity)
{
    uint64_t known = b->armed[parity];
    uint32_t epoch = (uint32_t)known;

    if (!known || !dma_trigger_claim(dma_sdma_trigger(b, epoch), epoch)) {
        return false;
    }
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            atomic_store_explicit(&b->armed_queues[i]->go[parity], 0, memory_order_relaxed);
        }
    }
    if (b->parts) {
        dma_sdma_parts_release(b);
    }
    dma_trigger_revoke(dma_sdma_trigger(b, epoch), epoch);
    return true;
}

static void at_exit(void)
{
    /* If another thread holds the lock while the process ends, do not wait for it. */
    if (pthread_mutex_trylock(&armed.lock)) {
        return;
    }
    for (dma_sdma_binding_t *b = armed.list; b; b = b->next_armed) {
        /* A forked child, which runs this handler too, revokes nothing. */
        if (dma_queues_is_owner(&b->unit->queues)) {
            revoke(b, 0);
            revoke(b, 1);
            if (b->parts) {
                dma_sdma_parts_release(b); /* also what has been let go: peers have nothing of what was not ready */
            }
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
            dma_queue_nudge(b->armed_queues[i], b->unit->counters);
        }
    }
}

/* What was built is given to the engines, and waits. */
static void publish(dma_sdma_binding_t *b, const dma_run_t *run)
{
    uint32_t parity = run->epoch % 2;

    /* The exit handler must know the binding before an engine can wait. */
    atomic_store_explicit(&b->window, run->window, memory_order_relaxed);
    dma_trigger_prepare(dma_sdma_trigger(b, run->epoch), run->epoch);
    atomic_store_explicit(&b->armed[parity], dma_sdma_known(run->epoch),
                          memory_order_release); /* behind what revokes it */
    exit_list_add(b);
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        dma_queue_t *queue = b->armed_queues[i];

        if (queue) {
            atomic_store_explicit(&queue->start, dma_trigger_go(run->epoch), memory_order_relaxed);
            atomic_store_explicit(&queue->start_word, dma_sdma_trigger(b, run->epoch), memory_order_release);
            /* The engine reads the words after the doorbell, which is a release store. */
            atomic_store_explicit(&queue->go[parity], 1, memory_order_relaxed);
            dma_queue_publish(queue, b->unit->counters);
        }
    }
}

/* These programs will not be armed, now or later. */
static dma_status_t give_arming_up(dma_sdma_binding_t *b)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            dma_ring_drop(&b->armed_queues[i]->ring);
        }
    }
    b->trigger = 0;
    if (dma_sdma_is_quiet(b)) { /* otherwise the present run uses the queues */
        b->left = !dma_sdma_arm_release(b, true);
    }
    return DMA_UNSUPPORTED;
}

dma_status_t dma_sdma_arm(const dma_run_t *run, uint64_t *bytes)
{
    dma_sdma_binding_t *b = dma_sdma_binding(run->binding);
    dma_sdma_unit_t *unit = b->unit;
    bool memory, fits;

    if (!b->trigger) {
        return DMA_UNSUPPORTED; /* counted when it was given up */
    }
    if (!dma_queues_is_owner(&b->unit->queues)) {
        return DMA_UNSUPPORTED;
    }
    if (b->stalled && !all_idle(b)) {
        b->trigger = 0; /* an engine this late is not armed again; its queues remain until the end */
        return DMA_UNSUPPORTED;
    }
    b->stalled = false;
    if (!create_queues(b, run)) {
        return give_arming_up(b);
    }
    if (run->parts && !dma_sdma_parts_prepare(b, run)) {
        return DMA_UNSUPPORTED;
    }
    pthread_mutex_lock(&unit->draft_lock);
    memory = unit->draft || (unit->draft = malloc(2 * BODY_DWORDS * sizeof(*unit->draft)));
    fits = memory && build_all(b, run, bytes, unit->draft);
    pthread_mutex_unlock(&unit->draft_lock);
    if (!memory) {
        return DMA_UNSUPPORTED;
    }
    if (!fits) {
        return give_arming_up(b);
    }
    publish(b, run);
    return DMA_OK;
}

void dma_sdma_disarm(dma_gpu_binding_t *handle)
{
    dma_sdma_binding_t *b = dma_sdma_binding(handle);
    double until = dma_now() + REVOKE_SECONDS;
    dma_pause_t pause = {0};
    unsigned revoked = 0;

    for (uint32_t parity = 0; parity < 2 && dma_queues_is_owner(&b->unit->queues); parity++) {
        uint64_t known = b->armed[parity];

        if (revoke(b, parity)) {
            bool present = known == dma_sdma_known(b->epoch);

            revoked++;
            b->armed[parity] = present ? known : 0; /* of the present run the lines are known that will not come */
            b->revoked = present ? known : b->revoked;
        }
    }
    if (!revoked) {
        return; /* nothing waits, or this is a forked child */
    }
    while (!all_idle(b) && dma_now() < until) {
        nudge_all(b);
        dma_pause(&pause);
    }
    b->stalled = !all_idle(b);
    if (b->parts && !b->stalled) {
        dma_sdma_parts_restore(b);
    }
    dma_gpu_count(b->unit->counters, DMA_COUNT_packets_skipped, revoked * b->armed_packets);
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
