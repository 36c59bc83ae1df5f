/*
 * The CPU's part of runs with partitions, whose programs partitions.c makes: programs are taken back when an engine waits for too
 * long, and the CPU starts what is left.
 *
 * To take the program back, the CPU stores 0 into the go words. Then it turns words that are 0 to DMA_PARTS_RELEASED, by
 * compare-and-swap, so that no queue waits; whoever makes the partition overwrites that. The queue then skips all that is
 * left and writes `ended`. What it has done is the units that `done` says, because a queue that has read 0 once reads 0 from
 * then on. The CPU appends what is left to the same queue, unit by unit as they become ready, in any order, and a last FENCE of
 * the program's line. A partition of a receiver can lie in several units then, and its word is written behind the last of them.
 *
 * All this is about a run that has been let go. One that waits for its trigger is revoked as any other (arm.c), and its words are
 * released and restored with it.
 */
#include "dma/parts.h"
#include "engine/sdma/hw/packet.h"
#include "engine/sdma/private.h"
#include "node/pause.h"
#include "node/window.h"

/* ---- taking back ---- */

static bool has_ended(const dma_sdma_binding_t *b, uint32_t program)
{
    /* acquire: `done` is written before */
    return atomic_load_explicit(&b->parts->lines[program].ended, memory_order_acquire) == b->epoch;
}

/* Neither the armed program nor what the CPU has started after it has copies under way. */
static bool is_settled(const dma_sdma_binding_t *b, uint32_t program)
{
    const dma_sdma_parts_program_t *at = &b->parts->programs[program];
    uint32_t done = atomic_load_explicit(&b->parts->lines[program].done, memory_order_acquire);
    uint32_t queued = b->armed_queues[program] ? program : 1;

    if (b->parts->epoch == b->epoch && at->begun) {
        return dma_sdma_parts_units(done, b->epoch) == DMA_PARTS_UNITS + at->begun;
    }
    return has_ended(b, queued);
}

void dma_sdma_parts_settle(dma_sdma_binding_t *b, double until)
{
    dma_pause_t pause = {0};
    bool settled = false;

    if (!dma_queues_is_owner(&b->unit->queues)) {
        return;
    }
    dma_sdma_parts_release(b);
    while (!settled && dma_now() < until) {
        settled = true;
        for (uint32_t i = 1; i < b->progs; i++) {
            settled = settled && is_settled(b, i);
        }
        if (!settled) {
            dma_pause(&pause);
        }
    }
    if (settled) {
        b->progs = 0; /* its lines have not been written and will not be */
    }
}

/* ---- the CPU's part of a run ---- */

static void take_back(dma_sdma_binding_t *b, dma_reason_t reason)
{
    dma_gpu_count(b->unit->counters, DMA_COUNT_REASON + (int)reason, 1);
    b->parts->taken = true;
    dma_sdma_parts_release(b);
}

/* Is a unit ready, and an earlier one not? The engines wait for that one. */
static bool is_out_of_order(const dma_sdma_binding_t *b, const dma_parts_t *parts, bool *all)
{
    *all = true;
    for (uint32_t u = 0; u < parts->units; u++) {
        bool ready = dma_sdma_parts_unit_ready(b, &parts->unit[u]);

        if (ready && !*all) {
            return true;
        }
        *all = *all && ready;
    }
    return false;
}

/* Until the engines have begun everything: do they wait for too long? */
static void look(dma_sdma_binding_t *b, const dma_run_t *run)
{
    dma_sdma_parts_t *parts = b->parts;
    bool all, blocked = is_out_of_order(b, run->parts->parts, &all);
    double now;

    if (all) {
        return;
    }
    now = dma_now();
    parts->blocked_at = !blocked ? 0 : parts->blocked_at > 0 ? parts->blocked_at : now;
    if (blocked && now - parts->blocked_at > run->parts->patience) {
        take_back(b, DMA_REASON_parts_order);
    } else if (now - parts->started_at > run->parts->seconds) {
        take_back(b, DMA_REASON_parts_late);
    }
}

/* What the engine had done when it has skipped the rest. */
static bool find_done(dma_sdma_binding_t *b, uint32_t program)
{
    dma_sdma_parts_program_t *at = &b->parts->programs[program];
    uint32_t units;

    if (!at->known && has_ended(b, b->armed_queues[program] ? program : 1)) {
        units =
            dma_sdma_parts_units(atomic_load_explicit(&b->parts->lines[program].done, memory_order_acquire), b->epoch);
        at->sent = units ? UINT64_MAX >> (DMA_PARTS_UNITS - units) : 0;
        at->finished = dma_window_queue_reached(b->window, b->rank, (int)program - 1, b->epoch);
        at->known = true;
    }
    return at->known;
}

static int next_unit(const dma_sdma_binding_t *b, const dma_parts_t *parts, uint64_t sent)
{
    for (uint32_t u = 0; u < parts->units; u++) {
        if (!(sent >> u & 1) && dma_sdma_parts_unit_ready(b, &parts->unit[u])) {
            return (int)u;
        }
    }
    return -1;
}

/* Nothing is left of a program. */
static dma_status_t put_line(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program, dma_queue_t *queue)
{
    uint32_t *p;
    dma_status_t status = dma_ring_reserve(&queue->ring, DMA_PACKET_FENCE_DWORDS, 1, &p);

    if (status == DMA_OK) {
        dma_packet_fence(p, dma_sdma_lower_target(b, queue, program, run->epoch).line, run->epoch);
        b->parts->programs[program].finished = true;
    }
    return status;
}

/* Gives the engine what is ready of a program, and at last the program's line. DMA_AGAIN: there is no room now. */
static dma_status_t submit(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program)
{
    const dma_parts_t *parts = run->parts->parts;
    dma_sdma_parts_program_t *at = &b->parts->programs[program];
    dma_queue_t *queue = dma_sdma_parts_queue(b, program);
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && (at->unit >= 0 || (at->unit = next_unit(b, parts, at->sent)) >= 0)) {
        status = dma_sdma_parts_put(b, run, program, (uint32_t)at->unit, at->sent, DMA_PARTS_UNITS + at->begun + 1,
                                    queue, &at->at);
        if (status == DMA_OK) {
            at->begun++;
            at->sent |= UINT64_C(1) << at->unit;
            at->unit = -1;
            at->at = (dma_lower_t){0};
        }
    }
    return status == DMA_OK && at->sent == UINT64_MAX >> (DMA_PARTS_UNITS - parts->units)
               ? put_line(b, run, program, queue)
               : status;
}

dma_status_t dma_sdma_advance(dma_run_t *run)
{
    dma_sdma_binding_t *b = dma_sdma_binding(run->binding);
    dma_sdma_parts_t *parts = b->parts;

    if (!run->parts || dma_sdma_run_waits(b, run->epoch)) {
        return DMA_OK; /* the engines do not wait for partitions before all ranks have started */
    }
    if (parts->epoch != run->epoch) {
        parts->epoch = run->epoch;
        parts->started_at = dma_now();
        parts->blocked_at = 0;
        parts->taken = false;
        for (uint32_t i = 1; i < run->plan->nprogs; i++) {
            parts->programs[i] = (dma_sdma_parts_program_t){.unit = -1};
        }
    }
    if (!parts->taken) {
        look(b, run);
    }
    for (uint32_t i = 1; parts->taken && i < run->plan->nprogs; i++) {
        dma_queue_t *queue = dma_sdma_parts_queue(b, i);
        dma_status_t status = DMA_OK;

        if (find_done(b, i) && !parts->programs[i].finished) {
            status = submit(b, run, i);
            dma_queue_publish(queue, b->unit->counters);
        }
        if (status != DMA_OK && status != DMA_AGAIN) {
            dma_sdma_switch_off(b->unit);
            return DMA_ERR_ENGINE;
        }
    }
    return DMA_OK;
}
