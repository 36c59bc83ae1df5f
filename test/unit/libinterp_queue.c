/* Queues of the plan interpreter: flags, copies, and one step of a program. See libinterp.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp_machine.h"

int64_t op_value(const world_t *w, const queue_t *q, const dma_op_t *op)
{
    return world_flag_base(w, q->who.call, &op->flag, op->flag.rank) + op->value +
           (op->flags & DMA_OP_CHUNKED ? (int64_t)q->who.trip : 0);
}

bool fail_at(machine_t *m, const queue_t *q, interp_error_t error, const char *fmt, ...)
{
    char what[200], op[200];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    interp_print_op(&q->prog->ops[q->who.pc], op, sizeof(op));
    return world_fail(&m->w, error, "call %d rank %d queue %d op %u trip %" PRIu64 " (%s): %s", q->who.call,
                      q->who.rank, q->who.prog, q->who.pc, q->who.trip, op, what);
}

bool flag_set(machine_t *m, queue_t *q, const dma_op_t *op, int64_t value, const uint32_t *clock)
{
    world_t *w = &m->w;
    flag_t *f = world_flag(w, q->who.call, op->flag.kind, q->who.rank, op->flag.peer);

    if (op->flag.kind == DMA_FLAG_ENTRY && (value != 1 || f->n)) {
        return fail_at(m, q, INTERP_BACKWARDS, "this flag is set to 1, once");
    }
    if (value < (f->n ? f->beats[f->n - 1].value : 0)) {
        return fail_at(m, q, INTERP_BACKWARDS, "%" PRId64 " after %" PRId64, value, f->beats[f->n - 1].value);
    }
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 2;
        f->beats = realloc(f->beats, f->cap * sizeof(beat_t));
    }
    f->beats[f->n].value = value;
    f->beats[f->n].clock = world_clock(w);
    memcpy(f->beats[f->n++].clock, clock, w->ncomp * sizeof(uint32_t));
    return true;
}

/* The first published value that satisfies a wait. The waiter has seen this value and none after it. */
static const beat_t *flag_beat(const flag_t *f, int64_t value)
{
    uint32_t lo = 0, hi = f->n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (f->beats[mid].value >= value) {
            hi = mid;
        } else {
            lo = mid + 1;
        }
    }
    return lo < f->n ? &f->beats[lo] : NULL;
}

static void queue_tick(machine_t *m, queue_t *q)
{
    q->who.clock[q->who.comp] = ++m->w.ticks[q->who.comp];
}

/* ---- copies ---- */

/* True if the rank may access memory of `peer`: this queue has waited for the peer's entry, or is ordered after one
 * that has. */
static bool entered(machine_t *m, const queue_t *q, int peer)
{
    if (peer == q->who.rank || q->seen[peer]) {
        return true;
    }
    for (uint32_t i = 0; i < m->nall; i++) {
        const queue_t *o = m->all[i];
        if (o->who.call == q->who.call && o->who.rank == q->who.rank && o->seen[peer] &&
            q->who.clock[o->who.comp] >= o->seen[peer]) {
            return true;
        }
    }
    return false;
}

/* A buffer of a stream is written, or read, for one position of the stream. */
static bool stream_access(machine_t *m, const queue_t *q, region_t *r, int64_t position, bool write)
{
    char where[64];

    if (write) {
        r->holds = position;
    } else if (r->holds != position && !(m->w.job->flags & INTERP_NO_CLOCKS)) {
        region_name(r, where, sizeof(where));
        return fail_at(m, q, INTERP_CHUNK, "%s holds chunk %" PRId64 " of the stream, not %" PRId64, where, r->holds,
                       position);
    }
    return true;
}

/* The block of a peer whose address is in the peer's slot. */
static region_t *reached(machine_t *m, queue_t *q, const dma_op_t *op, const dma_operand_t *o)
{
    dma_operand_t word = {.base = DMA_BASE_SLOT, .rank = o->rank, .offset = o->offset};
    uint64_t at, address;
    region_t *region;
    const uint8_t *src = operand(m, q, op, &word, sizeof(address), false, &region, &at);

    if (!src) {
        return NULL;
    }
    memcpy(&address, src, sizeof(address));
    region = world_block_at(&m->w, q->who.call, o->rank, address);
    if (!region || region->block != o->block) {
        fail_at(m, q, INTERP_BOUNDS, "no address of that block is there");
        return NULL;
    }
    return region;
}

/* Where an operand is. NULL, with the report filled, if it may not be accessed. */
uint8_t *operand(machine_t *m, queue_t *q, const dma_op_t *op, const dma_operand_t *o, uint64_t n, bool write,
                 region_t **region, uint64_t *at)
{
    world_t *w = &m->w;
    bool chunked = op->flags & DMA_OP_CHUNKED;
    int64_t block = o->block, position = 0;
    char where[64];

    *at = o->offset;
    if (world_is_stream(o->base)) {
        position = world_stream_base(w, q->who.call, o) + (int64_t)q->who.trip;
        block = o->base == DMA_BASE_CHUNK ? position % w->job->geom.chunk_depth
                                          : block * w->job->geom.pair_depth + position % w->job->geom.pair_depth;
    } else if (chunked && o->base != DMA_BASE_SLOT) {
        *at += q->who.trip * world_chunk(w, q->who.call, op->flags & DMA_OP_FALLBACK);
    }
    if (o->base == DMA_BASE_SEND || o->base == DMA_BASE_RECV || o->base == DMA_BASE_REMOTE) {
        *at += world_skip(w, q->who.call, q->who.rank, &op->len);
    }
    if (o->base == DMA_BASE_REMOTE) {
        *at -= o->offset; /* the slot contains the address */
        if (!(*region = reached(m, q, op, o))) {
            return NULL;
        }
    } else {
        *region = world_region(w, q->who.call, o->base, o->rank, block);
    }
    if (!*region) {
        fail_at(m, q, INTERP_BOUNDS, "no such operand");
        return NULL;
    }
    region_name(*region, where, sizeof(where));
    if (*at > (*region)->bytes || n > (*region)->bytes - *at) {
        fail_at(m, q, INTERP_BOUNDS, "bytes %" PRIu64 "..%" PRIu64 " of %s, which has %" PRIu64, *at, *at + n, where,
                (*region)->bytes);
        return NULL;
    }
    if (!entered(m, q, o->rank)) {
        fail_at(m, q, INTERP_NOT_ENTERED, "touches %s before WAIT(ENTRY) on that rank", where);
        return NULL;
    }
    if (!region_access(w, *region, *at, n, write, &q->who)) {
        return NULL;
    }
    if (world_is_stream(o->base) && !stream_access(m, q, *region, position, write)) {
        return NULL;
    }
    return (*region)->data + *at;
}

static void piece_run(machine_t *m, queue_t *q, uint32_t i)
{
    piece_t p = q->pending[i];

    q->pending[i] = q->pending[--q->npending];
    if (p.swap) {
        for (uint64_t k = 0; k < p.n; k++) {
            uint8_t t = p.dst0[k];
            p.dst0[k] = p.src[k];
            p.src[k] = t;
        }
    } else {
        memmove(p.dst0, p.src, p.n);
        if (p.dst1) {
            memmove(p.dst1, p.src, p.n);
        }
    }
    m->w.report->moved += p.n;
}

uint64_t op_bytes(machine_t *m, const queue_t *q, const dma_op_t *op)
{
    uint64_t total = world_length(&m->w, q->who.call, q->who.rank, &op->len), start;
    uint64_t chunk = world_chunk(&m->w, q->who.call, op->flags & DMA_OP_FALLBACK);

    if (!(op->flags & DMA_OP_CHUNKED)) {
        return total;
    }
    start = q->who.trip * chunk;
    return total <= start ? 0 : total - start < chunk ? total - start : chunk;
}

static bool copy_issue(machine_t *m, queue_t *q, const dma_op_t *op)
{
    uint64_t n = op_bytes(m, q, op), at, done = 0;
    uint8_t *dst0, *dst1 = NULL, *src = NULL;
    region_t *r;
    uint32_t cuts = world_random(&m->w, 3);

    m->w.report->copies++;
    if (n == 0) {
        return true;
    }
    if (!(src = operand(m, q, op, &op->src, n, op->code == DMA_OP_SWAP, &r, &at)) ||
        !(dst0 = operand(m, q, op, &op->dst[0], n, true, &r, &at)) ||
        (op->code == DMA_OP_COPY2 && !(dst1 = operand(m, q, op, &op->dst[1], n, true, &r, &at)))) {
        return false;
    }
    while (done < n) {
        uint64_t len = n - done;
        if (cuts && len > 1) {
            len = 1 + world_random(&m->w, (uint32_t)(len - 1));
            cuts--;
        }
        q->pending[q->npending++] = (piece_t){.dst0 = dst0 + done,
                                              .dst1 = dst1 ? dst1 + done : NULL,
                                              .src = src + done,
                                              .n = len,
                                              .swap = op->code == DMA_OP_SWAP};
        done += len;
    }
    return true;
}

/* Does a peer send as many bytes as this rank has room for? */
static bool size_check(machine_t *m, queue_t *q, int peer, int block, uint64_t says)
{
    uint64_t room = world_recv_bytes(&m->w, q->who.call, q->who.rank, block);

    if (says == room) {
        return true;
    }
    return fail_at(m, q, INTERP_SIZE, "rank %d says %" PRIu64 " bytes, there is room for %" PRIu64, peer, says, room);
}

static bool word_check(machine_t *m, queue_t *q, const dma_op_t *op)
{
    region_t *region;
    uint64_t at, word;
    const uint8_t *src = operand(m, q, op, &op->src, sizeof(word), false, &region, &at);

    if (!src) {
        return false;
    }
    memcpy(&word, src, sizeof(word));
    return size_check(m, q, op->src.rank, (int)op->len.len, word);
}

/* The descriptor of a peer says the size of its blocks, except in an all-to-all-v. */
static bool entry_check(machine_t *m, queue_t *q, int peer)
{
    const dma_plan_t *plan = world_part(&m->w, q->who.call, q->who.rank)->plan;
    int block = plan_gathers(plan) ? 0 : q->who.rank;

    if (plan->gpu) {
        /* the rank pushes, so the descriptors of the peers say how much room they have */
        uint64_t room = world_recv_bytes(&m->w, q->who.call, peer, q->who.rank);
        uint64_t ours = world_send_bytes(&m->w, q->who.call, q->who.rank, plan_gathers(plan) ? 0 : peer);

        if (room != ours) {
            return fail_at(m, q, INTERP_SIZE, "rank %d has room for %" PRIu64 " bytes, not %" PRIu64, peer, room, ours);
        }
    }
    return dma_coll_sizes(plan->coll) == DMA_SIZES_OWN ||
           size_check(m, q, peer, peer, world_send_bytes(&m->w, q->who.call, peer, block));
}

static void queue_next(machine_t *m, queue_t *q)
{
    const dma_prog_t *p = q->prog;
    bool end = q->who.pc == p->loop_last && p->loop_first < p->nops;

    if (end && q->who.trip + 1 < q->trips) {
        q->who.pc = p->loop_first;
        q->who.trip++;
    } else if (end && q->refused && !q->staged) {
        q->who.pc = p->loop_first;
        q->who.trip = 0;
        q->trips = world_trips(&m->w, q->who.call, q->who.rank, p, true);
        q->staged = true;
    } else {
        q->who.pc++;
    }
    while (q->who.pc == p->loop_first && p->loop_first < p->nops && q->trips == 0) {
        q->who.pc = p->loop_last + 1;
    }
    q->stale = 0;
}

static step_t queue_end(machine_t *m, queue_t *q)
{
    part_t *part = world_part(&m->w, q->who.call, q->who.rank);

    queue_tick(m, q);
    world_join(&m->w, part->clock, q->who.clock);
    q->ended = true;
    if (--part->live > 0) {
        return STEP_RAN;
    }
    part->complete = true;
    return world_user_done(&m->w, q->who.call, q->who.rank) ? STEP_RAN : STEP_FAILED;
}

static step_t queue_wait(machine_t *m, queue_t *q, const dma_op_t *op)
{
    const flag_t *flag = world_flag(&m->w, q->who.call, op->flag.kind, op->flag.rank, op->flag.peer);
    int64_t value = op_value(&m->w, q, op);
    const beat_t *beat = NULL;

    if (value > 0) {
        beat = flag_beat(flag, value);
        if (!beat) {
            q->awaited = flag;
            q->was_set = flag->n;
            return STEP_BLOCKED;
        }
        q->awaited = NULL;
        if (q->stale < STALE_MAX && world_random(&m->w, 3) == 0) {
            q->stale++;
            return STEP_LATE;
        }
        world_join(&m->w, q->who.clock, beat->clock);
    }
    if (m->w.job->flags & INTERP_STRONG) {
        queue_tick(m, q);
    }
    if (op->flag.kind == DMA_FLAG_ENTRY && beat) {
        if (!entry_check(m, q, op->flag.rank)) {
            return STEP_FAILED;
        }
        q->seen[op->flag.rank] = m->w.ticks[q->who.comp] + 1;
    }
    if (op->flags & DMA_OP_DIRECT) {
        q->refused = world_goes_staged(&m->w, q->who.call, q->who.rank, q->prog);
    }
    m->w.report->waits++;
    queue_next(m, q);
    return STEP_RAN;
}

/* Not in this trip, not on this path, or refused: nothing happens, except that the reader knows. */
static bool is_skipped(const machine_t *m, queue_t *q, const dma_op_t *op)
{
    bool last = q->who.trip + 1 >= q->trips;

    if ((op->flags & DMA_OP_LAST && !last) || (op->flags & DMA_OP_DIRECT && q->staged) ||
        (op->flags & DMA_OP_FALLBACK && !q->staged)) {
        return true;
    }
    if (dma_op_reads_peer(op) && last) {
        q->refused = world_goes_staged(&m->w, q->who.call, q->who.rank, q->prog);
        return q->refused;
    }
    return false;
}

step_t queue_step(machine_t *m, queue_t *q)
{
    const dma_op_t *op = q->who.pc < q->prog->nops ? &q->prog->ops[q->who.pc] : NULL;
    bool flush = !op || op->code == DMA_OP_SIGNAL || ((m->w.job->flags & INTERP_STRONG) && op->code == DMA_OP_WAIT) ||
                 q->npending > PENDING_MAX - 4;
    bool ok = true;
    step_t step;

    if (q->awaited && q->awaited->n == q->was_set && !q->npending) {
        return STEP_BLOCKED;
    }
    if (q->npending && (flush || world_random(&m->w, 3) == 0)) {
        piece_run(m, q, world_random(&m->w, q->npending));
        return STEP_RAN;
    }
    if (!op) {
        return queue_end(m, q);
    }
    if (is_skipped(m, q, op)) {
        queue_next(m, q);
        return STEP_RAN;
    }
    switch (op->code) {
    case DMA_OP_WAIT:
        step = queue_wait(m, q, op);
        if (step == STEP_BLOCKED && q->npending) {
            piece_run(m, q, world_random(&m->w, q->npending));
            return STEP_RAN;
        }
        return step;
    case DMA_OP_SIGNAL:
        if (op->flag.rank != q->who.rank) {
            return fail_at(m, q, INTERP_OWNER, "rank %d owns this flag", op->flag.rank) ? STEP_RAN : STEP_FAILED;
        }
        queue_tick(m, q);
        ok = flag_set(m, q, op, op_value(&m->w, q, op), q->who.clock);
        m->w.report->signals++;
        break;
    case DMA_OP_CHECK:
        ok = word_check(m, q, op);
        break;
    default:
        ok = copy_issue(m, q, op);
    }
    if (ok) {
        queue_next(m, q);
    }
    return ok ? STEP_RAN : STEP_FAILED;
}
