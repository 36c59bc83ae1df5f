/*
 * Programs with partitions: engines that wait for the words of the partitions themselves.
 *
 * The armed program of a queue, for a run whose blocks consist of units (dma/parts.h):
 *
 *     POLL   our trigger (engine/trigger.h), without its lowest bit: the call runs or is revoked
 *     for each unit, in order:
 *         POLL   the word of each of its partitions
 *         COND   the go word of the queue for this epoch; if it is 0, skip what belongs to it:
 *             copies of the own block, and FENCEs of its `arrived` words; in the first queue only,
 *                if the call is not in place
 *         COND   copies of the unit
 *                FENCE the `arrived` words of the partitions of each receiver that end in it
 *                FENCE the program's `done` word
 *     COND   FENCE the program's line := epoch
 *     FENCE  `ended` := epoch
 *
 * The trigger says that all ranks have started, so no engine writes to one that has not. Then nothing of the CPU is between the
 * store that makes the last partition of a unit ready and the word that says to the receiver that it has come. As no COND is
 * inside of another, it does not matter whether an engine allows that.
 *
 * How a program is taken back: parts_rest.c.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dma/parts.h"
#include "engine/sdma/hw/packet.h"
#include "engine/sdma/private.h"
#include "node/window.h"

/* Clocks between two reads of a word of a partition: the wait may be long. */
#define READY_INTERVAL 16

/* ---- what is where ---- */

/* Of the program's `done` word: after so many units, of the armed program or, above DMA_PARTS_UNITS, of those of the CPU. */
static uint32_t tag(uint32_t epoch, uint32_t units)
{
    return epoch << 8 | units;
}

/* How many units `done` says, of this epoch. */
uint32_t dma_sdma_parts_units(uint32_t done, uint32_t epoch)
{
    return done >> 8 == (epoch & 0xFFFFFF) ? done & 0xFF : 0;
}

static uint64_t go_addr(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program)
{
    const dma_queue_t *queue = dma_sdma_parts_queue(b, program);

    return queue->go_addr + run->epoch % 2 * sizeof(*queue->go);
}

static uint32_t bank_of(const dma_run_t *run)
{
    return (run->epoch - run->parts->first_epoch) & 1;
}

static uint32_t *ready_words(const dma_run_t *run)
{
    return run->parts->parts->ready + bank_of(run) * run->parts->parts->ready_distance;
}

static uint64_t line_addr(const dma_sdma_binding_t *b, uint32_t program, size_t member)
{
    return b->parts->lines_addr + program * sizeof(dma_sdma_parts_line_t) + member;
}

/* The bytes [offset, end) of a block that the partition of a receiver has. */
static uint64_t part_begin(const dma_parts_t *parts, uint32_t rparts, uint32_t part)
{
    return parts->block / rparts * part;
}

/* The first partition of a receiver that ends behind byte `offset`. */
static uint32_t part_at(const dma_parts_t *parts, uint32_t rparts, uint64_t offset)
{
    return (uint32_t)(offset / (parts->block / rparts));
}

/* The queue in which a program is: that of the own block is in the first one. */
dma_queue_t *dma_sdma_parts_queue(const dma_sdma_binding_t *b, uint32_t program)
{
    return b->armed_queues[program] ? b->armed_queues[program] : b->armed_queues[1];
}

bool dma_sdma_parts_unit_ready(const dma_sdma_binding_t *b, const dma_parts_unit_t *unit)
{
    _Atomic uint32_t *ready = atomic_load_explicit(&b->parts->ready, memory_order_relaxed);

    for (uint32_t p = unit->sends; p < unit->sends_end; p++) {
        /* acquire: the data of the partition */
        if (atomic_load_explicit(&ready[p], memory_order_acquire) != DMA_PARTS_READY) {
            return false;
        }
    }
    return true;
}

bool dma_sdma_parts_ready(const dma_sdma_binding_t *b)
{
    const dma_parts_unit_t all = {.sends = 0, .sends_end = b->parts->sparts};

    return dma_sdma_parts_unit_ready(b, &all);
}

/* ---- words that nobody makes any more ---- */

static void turn_words(const dma_sdma_binding_t *b, uint32_t from, uint32_t to)
{
    _Atomic uint32_t *ready = atomic_load_explicit(&b->parts->ready, memory_order_relaxed);

    for (uint32_t p = 0; ready && p < b->parts->sparts; p++) {
        uint32_t was = from;

        /* release: an engine that sees this word also sees the go words */
        atomic_compare_exchange_strong_explicit(&ready[p], &was, to, memory_order_release, memory_order_relaxed);
    }
}

void dma_sdma_parts_release(const dma_sdma_binding_t *b)
{
    for (int i = 1; i <= b->nranks; i++) {
        if (b->armed_queues[i]) {
            /* Both: only one run is armed. */
            atomic_store_explicit(&b->armed_queues[i]->go[0], 0, memory_order_relaxed);
            atomic_store_explicit(&b->armed_queues[i]->go[1], 0, memory_order_relaxed);
        }
    }
    turn_words(b, 0, DMA_PARTS_RELEASED);
}

void dma_sdma_parts_restore(const dma_sdma_binding_t *b)
{
    turn_words(b, DMA_PARTS_RELEASED, 0);
}

/* ---- memory ---- */

static size_t lines_bytes(const dma_sdma_binding_t *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = ((size_t)b->nranks + 1) * sizeof(dma_sdma_parts_line_t);

    return (bytes + page - 1) / page * page;
}

bool dma_sdma_parts_prepare(dma_sdma_binding_t *b, const dma_run_t *run)
{
    dma_sdma_parts_t *parts;

    if (!b->parts) {
        if (!(parts = calloc(1, sizeof(*parts) + ((size_t)b->nranks + 1) * sizeof(parts->programs[0])))) {
            return false;
        }
        if (!(parts->lines = dma_queues_alloc(&b->unit->queues, lines_bytes(b), &parts->lines_addr))) {
            free(parts);
            return false;
        }
        parts->sparts = run->parts->parts->sparts;
        b->parts = parts;
    }
    if (atomic_load_explicit(&b->parts->ready, memory_order_relaxed)) {
        dma_sdma_parts_restore(b); /* of a run that was revoked late */
    }
    return true;
}

void dma_sdma_parts_free(dma_sdma_binding_t *b, bool quiet)
{
    if (!b->parts) {
        return;
    }
    /* What an engine may still write to stays until the process ends: it is rare, and small. */
    if (quiet && dma_queues_is_owner(&b->unit->queues)) {
        dma_queues_free(&b->unit->queues, b->parts->lines, lines_bytes(b));
    }
    free(b->parts);
    b->parts = NULL;
}

/* ---- packets ---- */

static bool put_fence(dma_ring_t *ring, uint64_t addr, uint32_t value)
{
    uint32_t *p;

    if (dma_ring_reserve(ring, DMA_PACKET_FENCE_DWORDS, 1, &p) != DMA_OK) {
        return false;
    }
    dma_packet_fence(p, addr, value);
    return true;
}

static bool put_poll(dma_ring_t *ring, uint64_t addr, dma_packet_test_t test, uint32_t value, uint32_t mask,
                     uint32_t interval)
{
    uint32_t *p;

    if (dma_ring_reserve(ring, DMA_PACKET_POLL_DWORDS, 1, &p) != DMA_OK) {
        return false;
    }
    dma_packet_poll(p, addr, test, value, mask, interval);
    return true;
}

static bool begin_cond(dma_ring_t *ring, uint32_t **cond)
{
    return dma_ring_reserve(ring, DMA_PACKET_COND_DWORDS, 1, cond) == DMA_OK;
}

/* It covers what was reserved since: programs are no longer than a COND can cover. */
static void end_cond(const dma_ring_t *ring, uint32_t *cond, uint64_t go_addr)
{
    const uint32_t *end = ring->mem.ring + ring->reserved / sizeof(*end);

    dma_packet_cond(cond, go_addr, 1, (uint32_t)(end - cond - DMA_PACKET_COND_DWORDS));
}

/* Which units have bytes of a partition of a receiver. */
static uint64_t units_under(const dma_parts_t *parts, uint32_t rparts, uint32_t part)
{
    uint64_t begin = part_begin(parts, rparts, part), end = part_begin(parts, rparts, part + 1), mask = 0;

    for (uint32_t u = 0; u < parts->units; u++) {
        const dma_parts_unit_t *unit = &parts->unit[u];

        mask |= (uint64_t)(unit->offset < end && begin < unit->offset + unit->bytes) << u;
    }
    return mask;
}

/* The partitions of a receiver that have come with unit u, if the units in `sent` were before it: a FENCE for each at `p`, or
 * nothing if `p` is NULL. Returns how many there are. */
static uint32_t fence_arrived(uint32_t *p, const dma_run_t *run, int rank, uint32_t u, uint64_t sent)
{
    const dma_parts_t *parts = run->parts->parts;
    const dma_parts_target_t *to = &run->parts->targets[rank];
    const dma_parts_unit_t *unit = &parts->unit[u];
    uint64_t arrived = to->arrived + bank_of(run) * to->bank_bytes;
    uint32_t count = 0;

    for (uint32_t i = part_at(parts, to->rparts, unit->offset);
         i < to->rparts && part_begin(parts, to->rparts, i) < unit->offset + unit->bytes; i++) {
        if (units_under(parts, to->rparts, i) & ~(sent | UINT64_C(1) << u)) {
            continue;
        }
        if (p) {
            dma_packet_fence(p + count * DMA_PACKET_FENCE_DWORDS, arrived + i * sizeof(uint32_t), DMA_PARTS_READY);
        }
        count++;
    }
    return count;
}

static int copies_of(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY2 ? 2 : op->code == DMA_OP_COPY ? 1 : 0;
}

/* The same for all receivers of a program. In place, nothing is copied within this rank: its partitions come with those of the
 * first program. */
static uint32_t fence_all_arrived(uint32_t *p, const dma_run_t *run, uint32_t program, uint32_t u, uint64_t sent)
{
    const dma_prog_t *prog = &run->plan->progs[program];
    uint32_t count = program == 1 && run->plan->in_place ? fence_arrived(p, run, run->plan->rank, u, sent) : 0;

    for (uint32_t i = 0; i < prog->nops; i++) {
        for (int d = 0; d < copies_of(&prog->ops[i]); d++) {
            count +=
                fence_arrived(p ? p + count * DMA_PACKET_FENCE_DWORDS : NULL, run, prog->ops[i].dst[d].rank, u, sent);
        }
    }
    return count;
}

/* Behind the copies of a unit, in one group of packets: these words, and the program's `done`. */
static dma_status_t put_arrived(const dma_sdma_binding_t *b, dma_ring_t *ring, const dma_run_t *run, uint32_t program,
                                uint32_t u, uint64_t sent, uint32_t done)
{
    uint32_t fences = fence_all_arrived(NULL, run, program, u, sent), *p;
    dma_status_t status = dma_ring_reserve(ring, (fences + 1) * DMA_PACKET_FENCE_DWORDS, fences + 1, &p);

    if (status == DMA_OK) {
        (void)fence_all_arrived(p, run, program, u, sent);
        dma_packet_fence(p + fences * DMA_PACKET_FENCE_DWORDS,
                         line_addr(b, program, offsetof(dma_sdma_parts_line_t, done)), tag(run->epoch, done));
    }
    return status;
}

/* The copies of a unit from at->op on. */
static dma_status_t copy_unit(const dma_run_t *run, const dma_prog_t *prog, uint32_t u, const dma_lower_target_t *to,
                              dma_lower_t *at)
{
    const dma_parts_unit_t *unit = &run->parts->parts->unit[u];

    for (; at->op < prog->nops; at->op++, at->done = 0) {
        const dma_op_t *op = &prog->ops[at->op];
        dma_status_t status = copies_of(op) ? dma_lower_range(run, op, to, unit->offset, unit->bytes, at) : DMA_OK;

        if (status != DMA_OK) {
            return status;
        }
    }
    return DMA_OK;
}

dma_status_t dma_sdma_parts_put(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program, uint32_t u,
                                uint64_t sent, uint32_t done, dma_queue_t *queue, dma_lower_t *at)
{
    const dma_prog_t *prog = &run->plan->progs[program];
    dma_lower_target_t to = dma_sdma_lower_target(b, queue, program, run->epoch);
    dma_status_t status = copy_unit(run, prog, u, &to, at);

    return status == DMA_OK ? put_arrived(b, &queue->ring, run, program, u, sent, done) : status;
}

/* ---- arming ---- */

/* All of a program that one COND covers: a unit. */
static bool draft_unit(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program, uint32_t u,
                       dma_queue_t *draft)
{
    uint64_t before = (UINT64_C(1) << u) - 1;
    dma_lower_t at = {0};
    uint32_t *cond;

    if (!begin_cond(&draft->ring, &cond) ||
        dma_sdma_parts_put(b, run, program, u, before, u + 1, draft, &at) != DMA_OK) {
        return false;
    }
    end_cond(&draft->ring, cond, go_addr(b, run, program));
    return true;
}

/* Waits for the partitions of this rank. */
static bool draft_waits(const dma_run_t *run, const dma_parts_unit_t *unit, dma_ring_t *ring)
{
    const uint32_t *ready = ready_words(run);

    for (uint32_t p = unit->sends; p < unit->sends_end; p++) {
        if (!put_poll(ring, (uint64_t)(uintptr_t)&ready[p], DMA_PACKET_AT_LEAST, DMA_PARTS_READY, UINT32_MAX,
                      READY_INTERVAL)) {
            return false;
        }
    }
    return true;
}

/* The lines of both programs, or of one if there is no own block, and the end. */
static bool draft_end(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t own, uint32_t program,
                      dma_queue_t *draft)
{
    dma_ring_t *ring = &draft->ring;
    uint32_t *cond;

    if (!begin_cond(ring, &cond) ||
        (own && !put_fence(ring, dma_sdma_lower_target(b, draft, own, run->epoch).line, run->epoch)) ||
        !put_fence(ring, dma_sdma_lower_target(b, draft, program, run->epoch).line, run->epoch)) {
        return false;
    }
    end_cond(ring, cond, go_addr(b, run, program));
    return put_fence(ring, line_addr(b, program, offsetof(dma_sdma_parts_line_t, ended)), run->epoch);
}

/* Lowers a queue's program, and the one of the own block (0: none), to memory of the host. */
static bool draft_queue(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t own, uint32_t program,
                        dma_queue_t *draft)
{
    const dma_parts_t *parts = run->parts->parts;

    if (!dma_lower_is_plain(run, &run->plan->progs[program]) ||
        !put_poll(&draft->ring, b->trigger + dma_window_trigger_offset(run->epoch), DMA_PACKET_EQUAL,
                  dma_trigger_go(run->epoch), dma_trigger_mask(), DMA_SDMA_START_INTERVAL)) {
        return false;
    }
    for (uint32_t u = 0; u < parts->units; u++) {
        if (!draft_waits(run, &parts->unit[u], &draft->ring) || (own && !draft_unit(b, run, own, u, draft)) ||
            !draft_unit(b, run, program, u, draft)) {
            return false;
        }
    }
    return draft_end(b, run, own, program, draft);
}

static bool build_queue(dma_sdma_binding_t *b, const dma_run_t *run, uint32_t own, uint32_t program, uint64_t *bytes,
                        uint32_t *body)
{
    uint64_t read = 0, write = 0, doorbell = 0;
    dma_ring_memory_t memory = {.ring = body,
                                .bytes = 2 * DMA_SDMA_BODY_DWORDS * sizeof(*body),
                                .read_ptr = &read,
                                .write_ptr = &write,
                                .doorbell = &doorbell};
    dma_queue_t draft = {0}, *queue = b->armed_queues[program];
    uint32_t dwords, packets, *p;

    if (dma_ring_init(&draft.ring, &memory) != DMA_OK || !draft_queue(b, run, own, program, &draft)) {
        return false;
    }
    dwords = (uint32_t)(draft.ring.reserved / sizeof(*body));
    packets = (uint32_t)draft.ring.unpublished_packets;
    if (dwords > DMA_SDMA_BODY_DWORDS || dma_ring_reserve(&queue->ring, dwords, packets, &p) != DMA_OK) {
        return false;
    }
    memcpy(p, body, dwords * sizeof(*p));
    *bytes += draft.ring.unpublished_bytes;
    b->armed_packets += packets;
    return true;
}

bool dma_sdma_parts_build(dma_sdma_binding_t *b, const dma_run_t *run, uint64_t *bytes, uint32_t *body)
{
    uint32_t own = 0;

    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        own = run->plan->progs[i].link == b->rank ? i : own;
        atomic_store_explicit(&b->parts->lines[i].ended, run->epoch - 1, memory_order_relaxed);
    }
    for (uint32_t i = 1; i < run->plan->nprogs; i++) {
        if (i != own && !build_queue(b, run, i == 1 ? own : 0, i, bytes, body)) {
            return false;
        }
    }
    atomic_store_explicit(&b->parts->ready, (_Atomic uint32_t *)ready_words(run), memory_order_relaxed);
    return true;
}
