/* Tests of the plan interpreter itself: right plans pass, and each kind of wrong one is found. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "libinterp.h"
#include "libunit.h"

#define MAX_RANKS 4
#define MAX_PROGS 4
#define MAX_OPS   32

/* ---- plans by hand ---- */

typedef struct hand {
    dma_plan_t plan;
    dma_prog_t progs[MAX_PROGS];
    dma_op_t ops[MAX_PROGS][MAX_OPS];
} hand_t;

static dma_prog_t *last_prog(hand_t *h)
{
    return &h->progs[h->plan.nprogs - 1];
}

static void hand_begin(hand_t *h, dma_coll_t coll, int rank, int nranks)
{
    memset(h, 0, sizeof(*h));
    h->plan = (dma_plan_t){.coll = coll, .rank = rank, .nranks = nranks, .streams = true, .progs = h->progs};
}

static void hand_prog(hand_t *h)
{
    h->progs[h->plan.nprogs] = (dma_prog_t){.ops = h->ops[h->plan.nprogs]};
    h->plan.nprogs++;
}

static dma_op_t *hand_op(hand_t *h, dma_op_code_t code)
{
    dma_prog_t *p = last_prog(h);
    dma_op_t *op = &h->ops[h->plan.nprogs - 1][p->nops++];

    if (p->loop_len.kind == DMA_LEN_CONST) {
        p->loop_first = p->loop_last = p->nops;
    } else {
        p->loop_last = p->nops - 1;
    }
    op->code = (uint8_t)code;
    return op;
}

static void hand_loop(hand_t *h, dma_len_kind_t kind, uint64_t block)
{
    last_prog(h)->loop_first = last_prog(h)->nops;
    last_prog(h)->loop_len = (dma_len_t){.kind = (uint8_t)kind, .len = block};
}

static dma_operand_t at(dma_base_t base, int rank, int block)
{
    return (dma_operand_t){.base = (uint8_t)base, .rank = rank, .block = block};
}

static dma_op_t *copy(hand_t *h, dma_operand_t dst, dma_operand_t src, dma_len_kind_t kind, uint64_t len)
{
    dma_op_t *op = hand_op(h, DMA_OP_COPY);

    op->dst[0] = dst;
    op->src = src;
    op->len = (dma_len_t){.kind = (uint8_t)kind, .len = len};
    return op;
}

static dma_op_t *flag(hand_t *h, dma_op_code_t code, dma_flag_t kind, int rank, int peer, int value)
{
    dma_op_t *op = hand_op(h, code);

    op->flag = (dma_flag_ref_t){.kind = (uint8_t)kind, .rank = rank, .peer = peer};
    op->value = value;
    return op;
}

static dma_op_t *await(hand_t *h, dma_flag_t kind, int rank, int peer, int value)
{
    return flag(h, DMA_OP_WAIT, kind, rank, peer, value);
}

static dma_op_t *tell(hand_t *h, dma_flag_t kind, int rank, int peer, int value)
{
    return flag(h, DMA_OP_SIGNAL, kind, rank, peer, value);
}

static void own_copy(hand_t *h, int rank)
{
    copy(h, at(DMA_BASE_RECV, rank, rank), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0);
}

/* What a builder below does wrong. */
typedef enum fault {
    RIGHT,
    NO_ENTRY_WAIT,
    NO_ENTRY_SIGNAL,
    NO_DONE_WAIT,
    NO_CONSUMED_WAIT,
    NO_PRODUCED_WAIT,
    NO_LANDED_WAIT,
    EARLY_SIGNAL,
    WRONG_OFFSET,
    WRONG_SOURCE,
    LONG_COPY,
    FOREIGN_FLAG,
    LOW_FLAG,
    CIRCLE,
    SHALLOW,
    TWICE,
    UNCHUNKED,
    NOT_STREAMING,
    SHORT_MESSAGE,
    NO_MESSAGE_WAIT,
    NO_SIGNAL_BEFORE_SEND,
} fault_t;

/* Everyone reads the peers' send buffers. */
static void pull(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    if (fault == CIRCLE) {
        await(h, DMA_FLAG_ENTRY, (rank + 1) % n, 0, 1);
    }
    if (fault != NO_ENTRY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, fault == FOREIGN_FLAG ? (rank + 1) % n : rank, 0, 1);
    }
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        if (fault != NO_ENTRY_WAIT) {
            await(h, DMA_FLAG_ENTRY, p, 0, 1);
        }
        if (fault == EARLY_SIGNAL && k == n - 1) {
            tell(h, DMA_FLAG_DONE, rank, 0, 1);
        }
        dma_op_t *op = copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_SEND, fault == WRONG_SOURCE ? rank : p, 0),
                            DMA_LEN_RECV, (uint64_t)p);
        if (fault == WRONG_OFFSET) {
            op->dst[0].offset = 1;
        }
        if (fault == LONG_COPY) {
            op->len = (dma_len_t){.kind = DMA_LEN_CONST, .len = 1000};
        }
    }
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_DONE, rank, 0, fault == LOW_FLAG ? 0 : 1);
    }
    if (fault == TWICE) {
        tell(h, DMA_FLAG_DONE, rank, 0, 1);
    }
    for (int k = 1; k < n && fault != NO_DONE_WAIT; k++) {
        await(h, DMA_FLAG_DONE, (rank + k) % n, 0, 1);
    }
    h->plan.streams = fault != NOT_STREAMING;
}

/* Through the slot of the call's descriptor. */
static void slot(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    if (fault == EARLY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    }
    copy(h, at(DMA_BASE_SLOT, rank, 0), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0);
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    }
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_SLOT, p, 0), DMA_LEN_RECV, (uint64_t)p);
    }
    h->plan.streams = false;
}

/* Through chunk buffers: a producer and a consumer per peer. */
static void pipe_chunks(hand_t *h, int rank, int n, fault_t fault)
{
    int depth = 2 - (fault == SHALLOW ? 3 : 0);

    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    own_copy(h, rank);
    hand_loop(h, DMA_LEN_SEND, 0);
    for (int k = 1; k < n && fault != NO_CONSUMED_WAIT; k++) {
        await(h, DMA_FLAG_CONSUMED, (rank + k) % n, rank, 1 - depth)->flags = DMA_OP_CHUNKED;
    }
    if (fault == EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PRODUCED, rank, 0, 1)->flags = DMA_OP_CHUNKED;
    }
    copy(h, at(DMA_BASE_CHUNK, rank, 0), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0)->flags = DMA_OP_CHUNKED;
    if (fault != EARLY_SIGNAL) {
        tell(h, DMA_FLAG_PRODUCED, rank, 0, 1)->flags = DMA_OP_CHUNKED;
    }
    for (int k = 1; k < n; k++) {
        int p = (rank + k) % n;
        hand_prog(h);
        await(h, DMA_FLAG_ENTRY, p, 0, 1);
        hand_loop(h, DMA_LEN_RECV, (uint64_t)p);
        if (fault != NO_PRODUCED_WAIT) {
            await(h, DMA_FLAG_PRODUCED, p, 0, 1)->flags = DMA_OP_CHUNKED;
        }
        copy(h, at(DMA_BASE_RECV, rank, p), at(DMA_BASE_CHUNK, p, 0), DMA_LEN_RECV, (uint64_t)p)->flags =
            fault == UNCHUNKED ? 0 : DMA_OP_CHUNKED;
        tell(h, DMA_FLAG_CONSUMED, rank, p, 1)->flags = DMA_OP_CHUNKED;
    }
}

/* In place all-to-all: of each pair the lower rank swaps. */
static void swap(hand_t *h, int rank, int n, fault_t fault)
{
    hand_begin(h, DMA_ALLTOALL, rank, n);
    h->plan.in_place = true;
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    for (int p = rank + 1; p < n; p++) {
        dma_op_t *op;
        if (fault != NO_ENTRY_WAIT) {
            await(h, DMA_FLAG_ENTRY, p, 0, 1);
        }
        op = hand_op(h, DMA_OP_SWAP);
        op->dst[0] = at(DMA_BASE_RECV, rank, p);
        op->src = at(DMA_BASE_RECV, p, fault == WRONG_SOURCE ? p : rank);
        op->len = (dma_len_t){.kind = DMA_LEN_RECV, .len = (uint64_t)p};
        tell(h, DMA_FLAG_LANDED, rank, p, 1);
    }
    if (fault == TWICE && rank == 0) {
        *hand_op(h, DMA_OP_SWAP) = h->ops[0][2];
    }
    for (int p = 0; p < rank && fault != NO_LANDED_WAIT; p++) {
        await(h, DMA_FLAG_LANDED, p, rank, 1);
    }
}

/* Every rank reads its block once and writes it into two peers; stamps around it. */
static void push2(hand_t *h, int rank, int n, fault_t fault)
{
    dma_op_t *op;

    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    hand_op(h, DMA_OP_STAMP)->dst[0] = at(DMA_BASE_TEMP, rank, 0);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    own_copy(h, rank);
    for (int k = 1; k < n; k++) {
        await(h, DMA_FLAG_ENTRY, (rank + k) % n, 0, 1);
    }
    op = hand_op(h, DMA_OP_COPY2);
    op->dst[0] = at(DMA_BASE_RECV, (rank + 1) % n, rank);
    op->dst[1] = at(DMA_BASE_RECV, (rank + 2) % n, fault == WRONG_SOURCE ? 0 : rank);
    op->src = at(DMA_BASE_SEND, rank, 0);
    op->len = (dma_len_t){.kind = DMA_LEN_SEND};
    for (int k = 1; k < n; k++) {
        tell(h, DMA_FLAG_LANDED, rank, (rank + k) % n, 1);
    }
    op = hand_op(h, DMA_OP_STAMP);
    op->dst[0] = at(DMA_BASE_TEMP, rank, 0);
    op->dst[0].offset = 8;
    for (int k = 1; k < n && fault != NO_LANDED_WAIT; k++) {
        await(h, DMA_FLAG_LANDED, (rank + k) % n, rank, 1);
    }
}

/* Over the network, staged through scratch memory on both sides. */
static void net(hand_t *h, int rank, int n, fault_t fault)
{
    int next = (rank + 1) % n, prev = (rank + n - 1) % n;
    dma_op_t *op;

    hand_begin(h, DMA_ALLGATHER, rank, n);
    hand_prog(h);
    tell(h, DMA_FLAG_ENTRY, rank, 0, 1);
    own_copy(h, rank);
    copy(h, at(DMA_BASE_TEMP, rank, 0), at(DMA_BASE_SEND, rank, 0), DMA_LEN_SEND, 0);
    if (fault != NO_SIGNAL_BEFORE_SEND) {
        tell(h, DMA_FLAG_LANDED, rank, rank, 1);
    }
    op = hand_op(h, DMA_OP_SEND);
    op->src = at(DMA_BASE_TEMP, rank, 0);
    op->len = (dma_len_t){.kind = DMA_LEN_SEND};
    op->flag = (dma_flag_ref_t){.kind = DMA_FLAG_LANDED, .rank = next, .peer = next};
    op->value = 1;
    op = hand_op(h, DMA_OP_RECV);
    op->dst[0] = at(DMA_BASE_TEMP, rank, 0);
    op->dst[0].offset = 512;
    op->len = (dma_len_t){.kind = fault == SHORT_MESSAGE ? DMA_LEN_CONST : DMA_LEN_RECV, .len = (uint64_t)prev};
    op->flag = (dma_flag_ref_t){.kind = DMA_FLAG_DONE, .rank = prev};
    op->value = 1;
    if (fault != NO_MESSAGE_WAIT) {
        await(h, DMA_FLAG_DONE, rank, 0, 1);
    }
    copy(h, at(DMA_BASE_RECV, rank, prev), at(DMA_BASE_TEMP, rank, 0), DMA_LEN_RECV, (uint64_t)prev)->src.offset = 512;
    await(h, DMA_FLAG_LANDED, rank, next, 1);
}

/* ---- running them ---- */

typedef void (*builder_t)(hand_t *h, int rank, int n, fault_t fault);

static void run_once(builder_t build, int n, uint64_t block, fault_t fault, unsigned flags, uint64_t seed,
                     interp_report_t *report)
{
    static hand_t hands[MAX_RANKS];
    const dma_plan_t *plans[MAX_RANKS];
    uint64_t bytes[MAX_RANKS * MAX_RANKS];
    interp_call_t calls[4];
    interp_job_t job = {.nranks = n,
                        .geom = {.ring_depth = 2, .slot_bytes = 256, .chunk_bytes = 16, .chunk_depth = 2},
                        .temp_bytes = 1024,
                        .calls = calls,
                        .ncalls = 4,
                        .outstanding = 1 + (int)(seed % 2),
                        .flags = flags,
                        .seed = seed};

    for (int r = 0; r < n; r++) {
        build(&hands[r], r, n, fault);
        plans[r] = &hands[r].plan;
    }
    for (int i = 0; i < n * n; i++) {
        bytes[i] = block;
    }
    for (int c = 0; c < 4; c++) {
        calls[c] = (interp_call_t){.plans = plans, .chunk = 16, .bytes = bytes};
    }
    interp_run(&job, report);
}

static void passes(builder_t build, int n, uint64_t block)
{
    interp_report_t report;

    for (uint64_t i = 0; i < 60; i++) {
        run_once(build, n, block, RIGHT, i % 3 == 0 ? INTERP_STRONG : 0, 1000 * unit_seed() + i, &report);
        ck_assert_msg(report.error == INTERP_OK, "%s", report.text);
    }
}

/* The fault is found whatever the schedule, as `expected` (or `other`). */
static void finds(builder_t build, int n, uint64_t block, fault_t fault, interp_error_t expected, interp_error_t other)
{
    interp_report_t report;

    for (uint64_t i = 0; i < 40; i++) {
        run_once(build, n, block, fault, 0, 1000 * unit_seed() + i, &report);
        ck_assert_msg(report.error == expected || report.error == other, "fault %d: expected %s, got: %s", fault,
                      interp_error_name(expected), report.error ? report.text : "nothing");
    }
}

/* The fault shows in the bytes, or as a hang, under some schedule, without any clocks. */
static void shows(builder_t build, int n, uint64_t block, fault_t fault)
{
    interp_report_t report;
    int found = 0;

    for (uint64_t i = 0; i < 200; i++) {
        run_once(build, n, block, fault, INTERP_NO_CLOCKS, 1000 * unit_seed() + i, &report);
        found += report.error == INTERP_DATA || report.error == INTERP_DEADLOCK;
    }
    ck_assert_msg(found > 0, "fault %d never showed (seed %llu)", fault, (unsigned long long)unit_seed());
}

START_TEST(right_plans_pass)
{
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 100, 256};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (int n = 1; n <= MAX_RANKS; n++) {
            passes(pull, n, sizes[i]);
            passes(slot, n, sizes[i]);
            passes(pipe_chunks, n, sizes[i]);
            passes(swap, n, sizes[i]);
        }
        passes(push2, 3, sizes[i]);
        passes(net, 2, sizes[i]);
    }
}
END_TEST

START_TEST(missing_entry_wait)
{
    finds(pull, 3, 100, NO_ENTRY_WAIT, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED);
    finds(swap, 3, 100, NO_ENTRY_WAIT, INTERP_NOT_ENTERED, INTERP_NOT_ENTERED);
}
END_TEST

START_TEST(missing_entry_signal)
{
    finds(pull, 3, 100, NO_ENTRY_SIGNAL, INTERP_DEADLOCK, INTERP_DEADLOCK);
    finds(pull, 1, 100, NO_ENTRY_SIGNAL, INTERP_PLAN, INTERP_PLAN);
}
END_TEST

START_TEST(missing_done_wait)
{
    finds(pull, 3, 100, NO_DONE_WAIT, INTERP_USER, INTERP_DATA);
    shows(pull, 3, 100, NO_DONE_WAIT);
}
END_TEST

START_TEST(missing_consumed_wait)
{
    finds(pipe_chunks, 3, 100, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK);
    shows(pipe_chunks, 3, 100, NO_CONSUMED_WAIT);
    finds(pipe_chunks, 3, 32, NO_CONSUMED_WAIT, INTERP_CHUNK, INTERP_CHUNK); /* across calls only */
}
END_TEST

START_TEST(missing_produced_wait)
{
    finds(pipe_chunks, 3, 100, NO_PRODUCED_WAIT, INTERP_CHUNK, INTERP_DATA);
    shows(pipe_chunks, 3, 100, NO_PRODUCED_WAIT);
}
END_TEST

START_TEST(missing_landed_wait)
{
    finds(push2, 3, 100, NO_LANDED_WAIT, INTERP_USER, INTERP_DATA);
    shows(push2, 3, 100, NO_LANDED_WAIT);
    finds(swap, 3, 100, NO_LANDED_WAIT, INTERP_USER, INTERP_DATA);
    shows(swap, 3, 100, NO_LANDED_WAIT);
}
END_TEST

START_TEST(signal_before_copy)
{
    finds(slot, 3, 100, EARLY_SIGNAL, INTERP_RACE, INTERP_DATA);
    shows(slot, 3, 100, EARLY_SIGNAL);
    finds(pipe_chunks, 3, 100, EARLY_SIGNAL, INTERP_CHUNK, INTERP_DATA);
    shows(pipe_chunks, 3, 100, EARLY_SIGNAL);
    finds(pull, 3, 100, EARLY_SIGNAL, INTERP_USER, INTERP_DATA);
    shows(pull, 3, 100, EARLY_SIGNAL);
}
END_TEST

START_TEST(wrong_operands)
{
    finds(pull, 3, 100, WRONG_OFFSET, INTERP_BOUNDS, INTERP_BOUNDS);
    finds(pull, 3, 100, LONG_COPY, INTERP_BOUNDS, INTERP_BOUNDS);
    finds(pull, 3, 100, WRONG_SOURCE, INTERP_DATA, INTERP_DATA);
    finds(push2, 3, 100, WRONG_SOURCE, INTERP_RACE, INTERP_USER);
    finds(slot, 2, 257, RIGHT, INTERP_BOUNDS, INTERP_BOUNDS);
}
END_TEST

START_TEST(wrong_swaps)
{
    finds(swap, 2, 100, WRONG_SOURCE, INTERP_DATA, INTERP_DATA);
    finds(swap, 3, 100, TWICE, INTERP_USER, INTERP_DATA);
}
END_TEST

START_TEST(wrong_flags)
{
    finds(pull, 3, 100, FOREIGN_FLAG, INTERP_OWNER, INTERP_OWNER);
    finds(pull, 3, 100, LOW_FLAG, INTERP_BACKWARDS, INTERP_BACKWARDS);
    finds(pull, 3, 100, TWICE, INTERP_BACKWARDS, INTERP_BACKWARDS);
}
END_TEST

START_TEST(deadlocks)
{
    interp_report_t report;

    finds(pull, 3, 100, CIRCLE, INTERP_DEADLOCK, INTERP_DEADLOCK);
    finds(pipe_chunks, 2, 100, SHALLOW, INTERP_DEADLOCK, INTERP_DEADLOCK);
    run_once(pull, 2, 100, CIRCLE, 0, 1, &report);
    ck_assert_ptr_nonnull(strstr(report.text, "rank 1 queue 0 op 0 trip 0: WAIT ENTRY of rank 0 about 0 >= 1"));
}
END_TEST

START_TEST(malformed_plans)
{
    finds(pipe_chunks, 3, 100, UNCHUNKED, INTERP_PLAN, INTERP_PLAN);
    finds(pull, 3, 100, NOT_STREAMING, INTERP_PLAN, INTERP_PLAN);
}
END_TEST

START_TEST(network_steps)
{
    finds(net, 2, 100, NO_SIGNAL_BEFORE_SEND, INTERP_RACE, INTERP_RACE);
    finds(net, 2, 100, NO_MESSAGE_WAIT, INTERP_RACE, INTERP_RACE);
    finds(net, 2, 100, SHORT_MESSAGE, INTERP_NET, INTERP_NET);
}
END_TEST

START_TEST(seeds_repeat)
{
    interp_report_t a, b;

    for (uint64_t seed = 1; seed < 20; seed++) {
        run_once(pipe_chunks, 4, 200, RIGHT, 0, seed, &a);
        run_once(pipe_chunks, 4, 200, RIGHT, 0, seed, &b);
        ck_assert_mem_eq(&a, &b, sizeof(a));
        ck_assert_uint_gt(a.moved, 0);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("interp");

    unit_test(suite, right_plans_pass, 20);
    unit_test(suite, missing_entry_wait, 20);
    unit_test(suite, missing_entry_signal, 20);
    unit_test(suite, missing_done_wait, 20);
    unit_test(suite, missing_consumed_wait, 20);
    unit_test(suite, missing_produced_wait, 20);
    unit_test(suite, missing_landed_wait, 20);
    unit_test(suite, signal_before_copy, 20);
    unit_test(suite, wrong_operands, 20);
    unit_test(suite, wrong_swaps, 20);
    unit_test(suite, wrong_flags, 20);
    unit_test(suite, deadlocks, 20);
    unit_test(suite, malformed_plans, 20);
    unit_test(suite, network_steps, 20);
    unit_test(suite, seeds_repeat, 20);
    return unit_main(suite);
}
