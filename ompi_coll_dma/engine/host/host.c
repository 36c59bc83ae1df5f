/*
 * The host engine: the calling core executes the programs.
 *
 * advance() gives every program a turn. A program runs until it ends or reaches a flag that is not set yet. It never
 * blocks, allocates memory or makes a system call, except for cross-memory copies. A program copies at most one chunk
 * with a cross-memory copy per turn, so that control returns soon to the caller's progress loop.
 *
 * Of a GPU plan the host engine runs the host program. The GPU engine runs the others.
 *
 * A WAIT is an acquire load and a SIGNAL a release store on the lines of the window. Copies in between are plain: the
 * SIGNAL orders everything that a program copies before it, and what a program copies after a WAIT reads what the
 * flag announced.
 */
#include "dma/engine.h"

#include <string.h>

#include "dma/copy.h"
#include "node/cross.h"
#include "node/entry.h"
#include "trace/trace.h"

/* What a turn has done, for a trace. The functions that get one are inlined twice: with NULL they do nothing more. */
typedef struct turn {
    uint64_t first, last; /* when the first copy of the turn began, and the last one ended; 0: there was none */
    uint64_t busy;        /* time in copies */
    uint64_t met;         /* when the last entry of a peer was seen; 0: none was */
} turn_t;

static inline bool reached(uint64_t have, uint64_t want)
{
    return (int64_t)(have - want) >= 0;
}

static inline bool has_loop(const dma_prog_t *prog)
{
    return prog->loop_first < prog->nops;
}

static inline bool is_own(const dma_run_t *run, const dma_operand_t *o)
{
    return o->rank == run->plan->rank;
}

/* The address of a SEND, RECV, LINE or SLOT operand, which does not depend on the trip. SEND of a peer is not in this
 * process: see read_peer_block(). */
static inline char *fixed_address(const dma_run_t *run, const dma_operand_t *o)
{
    if (o->base == DMA_BASE_SEND) {
        return dma_blocks_addr(&run->send, (uint64_t)o->block) + o->offset;
    }
    if (o->base == DMA_BASE_RECV) {
        return dma_blocks_addr(&run->recv, (uint64_t)o->block) + o->offset;
    }
    return o->base == DMA_BASE_LINE ? dma_window_desc(run->window, o->rank, run->seq)->line + o->offset
                                    : dma_window_slot(run->window, o->rank, run->seq) + o->offset;
}

/* The address of any operand in a trip. `skip`: bytes to skip in the block. */
static char *operand_address(const dma_run_t *run, const dma_operand_t *o, uint64_t trip, uint64_t skip)
{
    const dma_window_t *w = run->window;

    switch (o->base) {
    case DMA_BASE_SEND:
    case DMA_BASE_RECV:
        return fixed_address(run, o) + skip;
    case DMA_BASE_LINE:
    case DMA_BASE_SLOT:
        return fixed_address(run, o);
    case DMA_BASE_CHUNK:
        return dma_window_chunk(w, o->rank, run->stream[o->rank] + trip) + o->offset;
    default: /* DMA_BASE_PAIR */
        return dma_window_pair_buffer(w, o->rank, o->block,
                                      trip + (is_own(run, o) ? run->pair_out[o->block] : run->pair_in[o->rank])) +
               o->offset;
    }
}

static uint64_t chunk_of(const dma_run_t *run, bool fallback)
{
    const dma_geom_t *geom = &run->window->geom;

    return fallback ? geom->pair_bytes / geom->pair_depth : run->chunk;
}

/* The bytes of its block that an operation covers in a trip. *skip: where in the block they begin. */
static inline uint64_t covered_bytes(const dma_run_t *run, const dma_op_t *op, uint64_t trip, uint64_t *skip)
{
    uint64_t bytes = dma_run_length(run, &op->len, skip);

    if (op->flags & DMA_OP_CHUNKED) {
        uint64_t chunk = chunk_of(run, op->flags & DMA_OP_FALLBACK), done = trip * chunk;

        bytes = bytes <= done ? 0 : bytes - done < chunk ? bytes - done : chunk;
        *skip += done;
    }
    return bytes;
}

/* The most frequent copy: a whole block, or a head, between SEND, RECV, LINE and SLOT. */
static inline bool is_plain(const dma_op_t *op)
{
    return op->code == DMA_OP_COPY && !(op->flags & DMA_OP_CHUNKED) && op->len.part <= DMA_HEAD &&
           op->len.kind != DMA_LEN_CONST && op->src.base <= DMA_BASE_SLOT && op->dst[0].base <= DMA_BASE_SLOT;
}

static inline void copy_plain(dma_run_t *run, const dma_op_t *op)
{
    uint64_t bytes = dma_blocks_bytes(op->len.kind == DMA_LEN_SEND ? &run->send : &run->recv, op->len.len);
    char *dst = fixed_address(run, &op->dst[0]);
    const char *src = fixed_address(run, &op->src);

    if (op->len.part == DMA_HEAD && bytes > run->plan->head) {
        return;
    }
    if (bytes <= 32) {
        dma_copy_small(dst, src, bytes);
    } else {
        dma_copy(dst, src, bytes);
    }
}

static __attribute__((noinline)) void copy(dma_run_t *run, const dma_op_t *op, uint64_t trip)
{
    uint64_t skip, bytes = covered_bytes(run, op, trip, &skip);
    char *dst;

    if (op->src.base == DMA_BASE_BYTES) {
        uint64_t block = (uint64_t)op->src.block;
        uint64_t words[] = {dma_blocks_bytes(&run->send, block), (uintptr_t)dma_blocks_addr(&run->send, block)};

        memcpy(operand_address(run, &op->dst[0], trip, 0), words, bytes);
        return;
    }
    dst = operand_address(run, &op->dst[0], trip, skip);
    if (bytes == 0) {
        return; /* addresses may be NULL then */
    }
    dma_copy(dst, operand_address(run, &op->src, trip, skip), bytes);
    if (op->code == DMA_OP_COPY2) {
        dma_copy(operand_address(run, &op->dst[1], trip, skip), dst, bytes);
    }
}

/* Whether a peer sends as many bytes as this rank receives. */
static __attribute__((noinline)) dma_status_t check(dma_run_t *run, const dma_op_t *op)
{
    uint64_t word;

    memcpy(&word, operand_address(run, &op->src, 0, 0), sizeof(word));
    if (word == dma_blocks_bytes(&run->recv, op->len.len)) {
        return DMA_OK;
    }
    run->failed_rank = op->src.rank;
    return DMA_ERR_TRUNCATE;
}

/* The slow path of wait_entry: the peer's descriptor differs from ours. Either the peer runs another call, or it
 * reports a refused cross-memory copy (DMA_SIGN_REFUSED), or its buffers are device memory (DMA_SIGN_DEVICE), and its
 * data come with a second entry. */
static __attribute__((noinline)) dma_status_t wait_entry_slow(dma_run_t *run, int peer, const dma_desc_t *d)
{
    dma_status_t status = dma_entry_compare(run->sign, d->sign);

    if (status != DMA_OK) {
        run->failed_rank = peer;
        return status;
    }
    if (d->sign & DMA_SIGN_REFUSED) {
        run->refused_rank = peer;
    }
    if (!(d->sign & DMA_SIGN_DEVICE)) {
        return DMA_OK;
    }
    run->beside_device = run->beside_device || dma_sign_has_device(d->sign);
    /* acquire: the payload is read after the word that announces it */
    return reached(atomic_load_explicit(&d->second_entry, memory_order_acquire), run->seq) ? DMA_OK : DMA_AGAIN;
}

/* Polls while the spin budget lasts: a peer that is about to enter does so in less time than it takes to return to the
 * caller and to be called again. */
static inline bool is_entered(dma_run_t *run, const dma_desc_t *d)
{
    while (!dma_entry_seen(d, run->seq)) {
        if (!run->spin_budget) {
            return false;
        }
        run->spin_budget--;
    }
    return true;
}

static inline dma_status_t wait_entry(dma_run_t *run, int peer)
{
    dma_window_t *w = run->window;
    const dma_desc_t *d = dma_window_desc(w, peer, run->seq);

    if (!is_entered(run, d)) {
        return DMA_AGAIN;
    }
    dma_entry_take_ack(w, peer, d);
    if (__builtin_expect(d->sign != run->sign, 0)) {
        return wait_entry_slow(run, peer, d);
    }
    return DMA_OK;
}

static __attribute__((noinline)) dma_status_t wait_flag(dma_run_t *run, const dma_op_t *op, uint64_t trip)
{
    const dma_window_t *w = run->window;
    const dma_flag_ref_t *f = &op->flag;
    uint64_t value = (uint64_t)(int64_t)op->value + (op->flags & DMA_OP_CHUNKED ? trip : 0);
    const _Atomic uint64_t *word;
    uint64_t want;

    switch (f->kind) {
    case DMA_FLAG_ENTRY:
        return wait_entry(run, f->rank);
    case DMA_FLAG_PRODUCED:
        word = &w->peers[f->rank].block->produced;
        want = run->stream[f->rank] + value;
        break;
    case DMA_FLAG_CONSUMED:
        word = &dma_window_pair(w, f->rank, f->peer)->consumed;
        want = run->stream[f->peer] + value;
        break;
    case DMA_FLAG_PAIR_PRODUCED:
        word = &dma_window_pair(w, f->rank, f->peer)->pair_produced;
        want = (f->rank == w->rank ? run->pair_out[f->peer] : run->pair_in[f->rank]) + value;
        break;
    case DMA_FLAG_PAIR_CONSUMED:
        word = &dma_window_pair(w, f->rank, f->peer)->pair_consumed;
        want = run->pair_out[f->rank] + value;
        break;
    case DMA_FLAG_QUEUE:
        return dma_window_queue_reached(w, f->rank, f->peer, run->epoch) ? DMA_OK : DMA_AGAIN;
    default:
        word = &dma_window_pair(w, f->rank, f->peer)->landed;
        want = run->seq - 1 + value;
        break;
    }
    return reached(atomic_load_explicit(word, memory_order_acquire), want) ? DMA_OK : DMA_AGAIN;
}

/* Publishes the call's descriptor. Its payload has been copied before. */
static inline void publish_entry(dma_run_t *run)
{
    dma_window_t *w = run->window;

    if (__builtin_expect(run->second_entry, 0)) {
        dma_entry_publish_data(w, run->seq, (uint64_t)(uintptr_t)run->send.addr);
        return;
    }
    dma_entry_publish(w, run->seq, run->sign | run->sign_flags, (uint64_t)(uintptr_t)run->send.addr);
}

static __attribute__((noinline)) void signal_flag(dma_run_t *run, const dma_op_t *op, uint64_t trip)
{
    const dma_window_t *w = run->window;
    const dma_flag_ref_t *f = &op->flag;
    uint64_t value = (uint64_t)(int64_t)op->value + (op->flags & DMA_OP_CHUNKED ? trip : 0);

    switch (f->kind) {
    case DMA_FLAG_ENTRY:
        publish_entry(run);
        break;
    case DMA_FLAG_PRODUCED:
        atomic_store_explicit(&w->own->produced, run->stream[f->rank] + value, memory_order_release);
        break;
    case DMA_FLAG_CONSUMED:
        atomic_store_explicit(&dma_window_pair(w, f->rank, f->peer)->consumed, run->stream[f->peer] + value,
                              memory_order_release);
        break;
    case DMA_FLAG_PAIR_PRODUCED:
        atomic_store_explicit(&dma_window_pair(w, f->rank, f->peer)->pair_produced, run->pair_out[f->peer] + value,
                              memory_order_release);
        break;
    case DMA_FLAG_PAIR_CONSUMED:
        atomic_store_explicit(&dma_window_pair(w, f->rank, f->peer)->pair_consumed, run->pair_in[f->peer] + value,
                              memory_order_release);
        break;
    default:
        atomic_store_explicit(&dma_window_pair(w, f->rank, f->peer)->landed, run->seq - 1 + value,
                              memory_order_release);
        break;
    }
}

static void count_copy(turn_t *turn, uint64_t began)
{
    turn->last = dma_trace_now();
    turn->first = turn->first ? turn->first : began;
    turn->busy += turn->last - began;
}

/* A WAIT has ended. */
static void count_wait(const dma_run_t *run, const dma_op_t *op, turn_t *turn)
{
    if (op->flag.kind == DMA_FLAG_ENTRY) {
        turn->met = op->flag.rank != run->plan->rank ? dma_trace_now() : turn->met;
    } else if (op->flag.kind == DMA_FLAG_QUEUE) {
        dma_trace_mark(run->window->trace, DMA_TRACE_LINE, run->seq, (unsigned)op->flag.peer, (uint64_t)op->flag.rank,
                       0);
    }
}

static inline __attribute__((always_inline)) dma_status_t execute(dma_run_t *run, const dma_op_t *op, uint64_t trip,
                                                                  turn_t *turn)
{
    dma_status_t status;
    uint64_t began;

    switch (op->code) {
    case DMA_OP_COPY:
    case DMA_OP_COPY2:
        began = turn ? dma_trace_now() : 0;
        if (is_plain(op)) {
            copy_plain(run, op);
        } else {
            copy(run, op, trip);
        }
        if (turn) {
            count_copy(turn, began);
        }
        return DMA_OK;
    case DMA_OP_WAIT:
        status = op->flag.kind == DMA_FLAG_ENTRY ? wait_entry(run, op->flag.rank) : wait_flag(run, op, trip);
        if (turn && status == DMA_OK) {
            count_wait(run, op, turn);
        }
        return status;
    case DMA_OP_CHECK:
        return check(run, op);
    default:
        if (op->flag.kind == DMA_FLAG_ENTRY) {
            publish_entry(run);
        } else {
            signal_flag(run, op, trip);
        }
        return DMA_OK;
    }
}

static inline __attribute__((always_inline)) dma_status_t run_linear(dma_run_t *run, const dma_prog_t *prog,
                                                                     dma_cursor_t *c, turn_t *turn)
{
    const dma_op_t *op = prog->ops + c->pc, *end = prog->ops + prog->nops;
    dma_status_t status = DMA_OK;

    while (op < end && (status = execute(run, op, 0, turn)) == DMA_OK) {
        op++;
    }
    c->pc = (uint32_t)(op - prog->ops);
    return status;
}

/* ---- loops with a direct and a fallback path ---- */

static bool is_skipped(const dma_op_t *op, const dma_cursor_t *c)
{
    return (op->flags & DMA_OP_LAST && c->trip + 1 < c->trips) || (op->flags & DMA_OP_DIRECT && c->fallback) ||
           (op->flags & DMA_OP_FALLBACK && !c->fallback);
}

/* Copies from a peer's block. REMOTE: the peer's slot contains its address. SEND: the peer's descriptor contains the
 * address of its send buffer, which has one block or blocks as large as ours. The peer wrote the address before its
 * ENTRY. The block does not change until the peer has seen our LANDED, or has failed. */
static bool read_peer_block(const dma_run_t *run, const dma_op_t *op, uint64_t trip)
{
    uint64_t addr, skip, bytes = covered_bytes(run, op, trip, &skip);

    if (op->src.base == DMA_BASE_REMOTE) {
        memcpy(&addr, dma_window_slot(run->window, op->src.rank, run->seq) + op->src.offset, sizeof(addr));
    } else {
        addr = dma_window_desc(run->window, op->src.rank, run->seq)->addr + op->src.offset +
               (uint64_t)op->src.block * run->send.bytes;
    }
    if (dma_cross_read(run->window->peers[op->src.rank].pid, fixed_address(run, &op->dst[0]) + skip, addr + skip,
                       bytes) != DMA_OK) {
        return false;
    }
    run->window->crossed += bytes;
    return true;
}

/* Executes an operation of the direct or the fallback path. A program ends its turn after one chunk of the direct
 * path, which has no flag to wait for. */
static __attribute__((noinline)) dma_status_t execute_on_path(dma_run_t *run, const dma_op_t *op, dma_cursor_t *c,
                                                              turn_t *turn)
{
    uint64_t began = turn ? dma_trace_now() : 0;
    bool landed = op->flags & DMA_OP_DIRECT && op->flag.kind == DMA_FLAG_LANDED;
    dma_pair_line_t *line;
    dma_status_t status;

    if (is_skipped(op, c)) {
        return DMA_OK;
    }
    if (dma_op_reads_peer(op)) {
        bool read = read_peer_block(run, op, c->trip);

        if (turn) {
            count_copy(turn, began);
        }
        if (!read) {
            c->refused = 1;
            c->trip = c->trips - 1; /* LANDED, in the last trip, reports it to the owner */
        } else if (dma_window_failed(run->window, op->src.rank)) {
            return DMA_AGAIN; /* the peer may have changed its block: the caller's wait finds the poison */
        } else if (c->trip + 1 < c->trips) {
            c->pc++;
            return DMA_AGAIN;
        }
        return DMA_OK;
    }
    if (!landed) {
        return execute(run, op, c->trip, turn);
    }
    line = dma_window_pair(run->window, op->flag.rank, op->flag.peer);
    if (op->code == DMA_OP_SIGNAL && c->refused) {
        atomic_store_explicit(&line->denied, run->seq, memory_order_relaxed); /* `landed` orders it: a release store */
    }
    status = execute(run, op, c->trip, turn);
    if (op->code == DMA_OP_WAIT && status == DMA_OK) {
        c->refused =
            atomic_load_explicit(&line->denied, memory_order_relaxed) == run->seq; /* `landed`: an acquire load */
    }
    return status;
}

/* All trips of a path have run. Returns true if the fallback path begins now. */
static inline bool begin_fallback(const dma_run_t *run, const dma_prog_t *prog, dma_cursor_t *c)
{
    uint64_t skip, chunk;

    if (!c->refused || c->fallback) {
        return false;
    }
    chunk = chunk_of(run, true);
    c->fallback = 1;
    c->trip = 0;
    c->trips = (dma_run_length(run, &prog->loop_len, &skip) + chunk - 1) / chunk;
    return true;
}

static inline __attribute__((always_inline)) dma_status_t run_loop(dma_run_t *run, const dma_prog_t *prog,
                                                                   dma_cursor_t *c, turn_t *turn)
{
    while (c->pc < prog->nops) {
        const dma_op_t *op = &prog->ops[c->pc];
        dma_status_t status;

        if (c->pc == prog->loop_first && c->trip == c->trips && !begin_fallback(run, prog, c)) {
            c->pc = prog->loop_last + 1;
            continue;
        }
        status = op->flags & (DMA_OP_DIRECT | DMA_OP_FALLBACK) ? execute_on_path(run, op, c, turn)
                                                               : execute(run, op, c->trip, turn);
        if (status != DMA_OK) {
            return status;
        }
        if (c->pc++ == prog->loop_last) {
            c->trip++;
            c->pc = prog->loop_first;
        }
    }
    return DMA_OK;
}

/* The first operation after those about entries. All ranks have entered before a GPU plan starts. */
static uint32_t after_entry(const dma_prog_t *prog)
{
    uint32_t pc = 0;

    while (pc < prog->nops && (prog->ops[pc].code == DMA_OP_SIGNAL || prog->ops[pc].code == DMA_OP_WAIT) &&
           prog->ops[pc].flag.kind == DMA_FLAG_ENTRY) {
        pc++;
    }
    return pc;
}

static dma_status_t host_start(dma_run_t *run)
{
    const dma_plan_t *plan = run->plan;
    uint32_t live = plan->gpu ? 1 : plan->nprogs;

    for (uint32_t i = 0; i < plan->nprogs; i++) {
        const dma_prog_t *prog = &plan->progs[i];
        dma_cursor_t *c = &run->cursors[i];

        *c = (dma_cursor_t){.ended = prog->link != DMA_ON_HOST};
        if (has_loop(prog)) {
            uint64_t skip, bytes = dma_run_length(run, &prog->loop_len, &skip);

            c->fallback = bytes <= plan->fallback_max_bytes;
            /* no division for small blocks */
            c->trips = !bytes ? 0 : c->fallback ? 1 : (bytes + run->chunk - 1) / run->chunk;
            /* no trips on the direct path means none on the fallback path: both cover the same bytes */
            if (prog->loop_only && !c->trips) {
                c->ended = 1;
                live--;
            }
        }
    }
    if (plan->gpu) {
        run->cursors[0].pc = after_entry(&plan->progs[0]);
    }
    run->live = live;
    run->failed_rank = -1;
    return DMA_OK;
}

static inline __attribute__((always_inline)) dma_status_t advance(dma_run_t *run, turn_t *turn)
{
    const dma_plan_t *plan = run->plan;

    for (uint32_t i = 0; i < plan->nprogs; i++) {
        const dma_prog_t *prog = &plan->progs[i];
        dma_cursor_t *c = &run->cursors[i];
        dma_status_t status;

        if (c->ended) {
            continue;
        }
        status = has_loop(prog) ? run_loop(run, prog, c, turn) : run_linear(run, prog, c, turn);
        if (status == DMA_OK) {
            c->ended = 1;
            run->live--;
        } else if (status != DMA_AGAIN) {
            return status;
        }
    }
    return run->live ? DMA_AGAIN : DMA_OK;
}

static dma_status_t host_advance(dma_run_t *run)
{
    return advance(run, NULL);
}

/* ---- the same, traced ---- */

static dma_status_t traced_start(dma_run_t *run)
{
    dma_trace_plan(run->window->trace, run->seq, run->plan->gpu ? DMA_TRACE_GPU_ENGINE : DMA_TRACE_CORES_ENGINE,
                   dma_variants[run->plan->variant]->name);
    return host_start(run);
}

static dma_status_t traced_advance(dma_run_t *run)
{
    const dma_trace_comm_t *trace = run->window->trace;
    uint64_t seq = run->seq;
    turn_t turn = {0};
    dma_status_t status = advance(run, &turn);

    if (turn.met) {
        dma_trace_event_t event = {.at = turn.met, .kind = DMA_TRACE_MET, .seq = (uint32_t)seq};

        dma_trace_put(trace, &event);
    }
    if (turn.first) {
        dma_trace_event_t event = {
            .at = turn.first, .kind = DMA_TRACE_CORES, .seq = (uint32_t)seq, .a = turn.last, .b = turn.busy};

        dma_trace_put(trace, &event);
    }
    return status;
}

#define OPERATIONS                                                                                                     \
    (1u << DMA_OP_COPY | 1u << DMA_OP_COPY2 | 1u << DMA_OP_WAIT | 1u << DMA_OP_SIGNAL | 1u << DMA_OP_CHECK)

const dma_engine_t dma_engine_host_traced = {
    .name = "host",
    .ops = OPERATIONS,
    .start = traced_start,
    .advance = traced_advance,
};

const dma_engine_t dma_engine_host = {
    .name = "host",
    .ops = OPERATIONS,
    .start = host_start,
    .advance = host_advance,
};
