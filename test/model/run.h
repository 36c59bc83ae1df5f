/*
 * Runs of the plans in plan.h, for plans.c and poison.c: buffers, what is in them, and where the streams are.
 *
 * Includes the product's host.c. The word `w` of the block that rank `from` sends to rank `to` in a call is a number of its
 * own.
 */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "memory.h"
#include "sizes.h"

#include "engine/host/host.c" /* the product's */
#include "plan.h"             /* printed by print_plans */

#define PROGRAMS (2 * RANKS + 1)

const dma_variant_t *const dma_variants[1];

void dma_trace_put(const dma_trace_comm_t *comm, const dma_trace_event_t *event)
{
    (void)comm, (void)event;
}

static const dma_geom_t geom = GEOM;
static uint64_t send_words[RANKS][RANKS * WORDS], recv_words[RANKS][RANKS * WORDS];
static dma_run_t runs[RANKS];
static dma_cursor_t cursors[RANKS][PROGRAMS];
static uint64_t stream[RANKS][RANKS], pair_out[RANKS][RANKS], pair_in[RANKS][RANKS];

static inline bool gathers(int me)
{
    return dma_coll_gathers(plans[me].coll);
}

static inline uint64_t word_of(uint64_t seq, int from, int to, int w)
{
    return ((seq * RANKS + (uint64_t)from) * RANKS + (uint64_t)to) * WORDS + (uint64_t)w + 1;
}

/* What the rank sends in a call, and nothing in what it receives. */
static inline void fill_blocks(int me, uint64_t seq)
{
    for (int to = 0; to < (gathers(me) ? 1 : RANKS); to++) {
        for (int w = 0; w < WORDS; w++) {
            send_words[me][to * WORDS + w] = word_of(seq, me, to, w);
        }
    }
    for (int i = 0; i < RANKS * WORDS; i++) {
        recv_words[me][i] = 0;
    }
}

/* How many ranks send anything. */
#ifdef ONE_WAY
#define SENDERS 1
#else
#define SENDERS RANKS
#endif

static inline void check_blocks(int me, uint64_t seq)
{
    for (int from = 0; from < SENDERS; from++) {
        for (int w = 0; w < WORDS; w++) {
            check_that(recv_words[me][from * WORDS + w] == word_of(seq, from, gathers(me) ? 0 : me, w));
        }
    }
}

static uint64_t counts[RANKS];

/* `bytes`: of a block that is not empty. */
static inline void make_runs(uint64_t bytes)
{
    for (int r = 0; r < RANKS; r++) {
        counts[r] = r < SENDERS ? bytes : 0;
    }
    for (int r = 0; r < RANKS; r++) {
        dma_run_t *run = &runs[r];

        run->plan = &plans[r];
        run->window = &windows[r];
        run->send.addr = (char *)send_words[r];
        run->recv.addr = (char *)recv_words[r];
        run->send.bytes = counts[r];
        run->recv.bytes = bytes;
        run->recv.counts = SENDERS < RANKS ? counts : NULL;
        run->chunk = 8;
        run->stream = stream[r];
        run->pair_out = pair_out[r];
        run->pair_in = pair_in[r];
        run->sign = dma_sign(plans[r].coll, false, bytes);
        run->cursors = cursors[r];
        for (int p = 0; p < RANKS; p++) {
            stream[r][p] = pair_out[r][p] = pair_in[r][p] = 0;
        }
    }
}

static inline void start_run(dma_run_t *run, uint64_t seq)
{
    run->seq = seq;
#ifdef MODEL_GENMC
    /* As the engine's start, which has no access to shared memory, but member by member: see memory.h. */
    run->live = run->plan->nprogs;
    run->failed_rank = -1;
    for (uint32_t i = 0; i < run->plan->nprogs; i++) {
        const dma_prog_t *prog = &run->plan->progs[i];
        dma_cursor_t *c = &run->cursors[i];
        uint64_t skip, bytes = has_loop(prog) ? dma_run_length(run, &prog->loop_len, &skip) : 0;

        c->pc = 0;
        c->refused = 0;
        c->fallback = has_loop(prog) && bytes <= run->plan->fallback_max_bytes;
        c->trip = 0;
        c->trips = c->fallback && bytes ? 1 : (bytes + run->chunk - 1) / run->chunk;
        c->ended = prog->loop_only && !c->trips;
        run->live -= c->ended;
    }
#else
    check_that(dma_engine_host.start(run) == DMA_OK);
#endif
}

/* The streams are where the flags of this rank, and those that it has waited for, say. */
static inline void end_run(dma_run_t *run)
{
    const dma_plan_t *plan = run->plan;
    int me = plan->rank;

    for (uint32_t i = 0; i < plan->nprogs; i++) {
        const dma_prog_t *prog = &plan->progs[i];
        const dma_cursor_t *c = &run->cursors[i];

        for (uint32_t k = 0; k < prog->nops; k++) {
            const dma_op_t *op = &prog->ops[k];

            if (!(op->flags & DMA_OP_CHUNKED) || (op->flags & DMA_OP_FALLBACK && !c->fallback)) {
                continue;
            }
            if (op->flag.kind == DMA_FLAG_PRODUCED && (op->code == DMA_OP_SIGNAL || op->code == DMA_OP_WAIT)) {
                stream[me][op->flag.rank] += c->trips;
            } else if (op->flag.kind == DMA_FLAG_PAIR_PRODUCED && op->code == DMA_OP_SIGNAL) {
                pair_out[me][op->flag.peer] += c->trips;
            } else if (op->flag.kind == DMA_FLAG_PAIR_PRODUCED && op->code == DMA_OP_WAIT && op->flag.rank != me) {
                pair_in[me][op->flag.rank] += c->trips;
            }
        }
    }
}

/* A turn in which nothing has moved is like no turn. */
static inline void until_moved(const dma_run_t *run, uint64_t *position)
{
    uint64_t now = 0;

    for (uint32_t i = 0; i < run->plan->nprogs; i++) {
        const dma_cursor_t *c = &run->cursors[i];

        now = now * 1000 + (c->fallback * 10u + c->trip) * 10u + c->pc + c->ended;
    }
#ifdef MODEL_GENMC
    until(now != *position);
#else
    if (now == *position) {
        let_others_run();
    }
#endif
    *position = now;
}

/* In place of a system call; a read of words that others may be writing is poison.c's. */
#ifdef READS_RACE
#define read_word(word) __atomic_load_n(word, __ATOMIC_RELAXED)
#else
#define read_word(word) (*(word))
#endif

dma_status_t dma_cross_read(pid_t pid, void *dst, uint64_t addr, size_t bytes)
{
    (void)pid;
#ifdef REFUSED
    if ((uint64_t *)dst >= recv_words[1] && (uint64_t *)dst < recv_words[1] + RANKS * WORDS) {
        return DMA_UNSUPPORTED;
    }
#endif
    for (size_t i = 0; i < bytes / 8; i++) {
        ((uint64_t *)dst)[i] = read_word((const uint64_t *)(uintptr_t)addr + i);
    }
    return DMA_OK;
}

#endif
