/*
 * One case: a few calls on one or several communicators, with skew and the user's own messages around them.
 *
 * What all ranks must agree on comes from one stream of random numbers. What MPI leaves to each rank (datatypes with the
 * right signature, the place of buffers, the time of arrival) comes from streams of its own.
 */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 8, MOST_FLIGHT = 8, MOST_ROUNDS = 3 };
/* Bytes of all blocks of a buffer, roughly. It is limited so that a case of many ranks does not take long. */
enum { MOST_BUFFER = 1 << 21, MOST_DEVICE_BUFFER = 1 << 26 };

const char *const shape_names[SHAPE_KINDS] = {"one call", "2-4 calls", "2-8 in flight over 2-3 communicators",
                                              "5-16 calls on 2 communicators"};
const char *const skew_names[SKEW_KINDS] = {"none", "some", "late"};

/* Streams of random numbers of a case. */
enum { STREAM_SHAPE = 1, STREAM_COMM = 100, STREAM_TRAFFIC = 200, STREAM_NAME = 400, STREAM_RANK = 10000 };

static _Thread_local comm_t pool[POOL];

void case_setup(void)
{
    for (int i = 0; i < POOL; i++) {
        rng_t rng = rng_make(0, (uint64_t)i, (uint64_t)thread_index);
        /* The world is in the pool once: two entries would look like two communicators. */
        comm_kind_t kind = (comm_kind_t)(i < COMM_KINDS ? i : COMM_DUP + i % COMM_KINDS);
        comm_make(&pool[i], kind, false, rng);
    }
}

void case_teardown(void)
{
    for (int i = 0; i < POOL; i++) {
        comm_free(&pool[i]);
    }
}

static long at_most(long value, long limit)
{
    return value < limit ? value : limit;
}

static long choose_bytes(rng_t *rng, shape_t shape, int ranks)
{
    if (options.device > 0 && shape == SHAPE_SINGLE) {
        return rng_log(rng, 1, at_most(MOST_DEVICE_BUFFER / ranks, options.max_bytes));
    }
    long limit = at_most(MOST_BUFFER / ranks, shape == SHAPE_BURST ? 4096 : shape == SHAPE_SINGLE ? 1 << 20 : 1 << 17);
    limit = at_most(limit, options.max_bytes);
    long dice = rng_below(rng, 100);
    if (dice < 5) {
        return 0;
    }
    if (dice < 78) {
        return rng_log(rng, 1, at_most(limit, 2048));
    }
    if (dice < 90) {
        return rng_log(rng, at_most(limit, 1024), at_most(limit, 16384));
    }
    return rng_log(rng, at_most(limit, dice < 96 ? 16384 : 65536), limit);
}

/* Half of the larger sizes are rounded to divisible numbers, so that types of many units fit. */
static long choose_total(rng_t *rng, long bytes, const unit_t *unit)
{
    long total = bytes / unit->bytes;
    total = bytes > 0 && total == 0 ? 1 : total;
    return total > 24 && rng_chance(rng, 50) ? total / 12 * 12 : total;
}

static const op_t *choose_op(rng_t *rng)
{
    const op_t *op;
    do {
        op = &ops[rng_below(rng, nops)];
    } while (options.only != NULL && strcmp(options.only, op->name) != 0);
    return op;
}

static form_t choose_form(rng_t *rng, shape_t shape, int index)
{
    form_t form;
    if (shape == SHAPE_FLIGHT && index < 2 && options.forms[FORM_NONBLOCKING] && options.forms[FORM_PERSISTENT]) {
        return index == 0 ? FORM_NONBLOCKING : FORM_PERSISTENT;
    }
    do {
        long dice = rng_below(rng, 100);
        form = shape == SHAPE_FLIGHT || shape == SHAPE_BURST ? dice < 12   ? FORM_BLOCKING
                                                               : dice < 60 ? FORM_NONBLOCKING
                                                                           : FORM_PERSISTENT
               : dice < 40                                   ? FORM_BLOCKING
               : dice < 70                                   ? FORM_NONBLOCKING
                                                             : FORM_PERSISTENT;
    } while (!options.forms[form]);
    return form;
}

static int choose_rounds(rng_t *rng)
{
    return rng_chance(rng, 10) ? 0 : 1 + (int)rng_below(rng, MOST_ROUNDS);
}

static comm_t *choose_comm(case_t *c, rng_t *rng, int first, int index)
{
    if (c->has_fresh && (index == c->ncalls - 1 || (index > 1 && rng_chance(rng, 30)))) {
        return &c->fresh;
    }
    switch (c->shape) {
    case SHAPE_FLIGHT: /* neighbors in the pool; the first two calls take different ones */
        return &pool[(first + (index < 2 ? index : (int)rng_below(rng, 3))) % POOL];
    case SHAPE_BURST:
        return &pool[(first + rng_below(rng, 2)) % POOL];
    default:
        return &pool[rng_below(rng, POOL)];
    }
}

static void choose_call(case_t *c, int index, int first, rng_t *rng)
{
    call_t *call = &c->calls[index];
    call->request = MPI_REQUEST_NULL;
    call->op = choose_op(rng);
    call->form = choose_form(rng, c->shape, index);
    call->comm = choose_comm(c, rng, first, index);
    call->name = mix(mix(options.seed, STREAM_NAME), (uint64_t)c->number * MOST_CALLS + (uint64_t)index);
    call->unit = (int)rng_below(rng, UNIT_KINDS);
    call->in_place = rng_chance(rng, 35);
    if (call->op->vector) {
        call->counts = (counts_kind_t)rng_below(rng, COUNTS_KINDS);
    }
    long bytes = choose_bytes(rng, c->shape, world_size);
    call->total = choose_total(rng, call->op->vector ? (bytes + 1) / 2 : bytes, &units[call->unit]);
    call->rounds = call->form == FORM_PERSISTENT ? choose_rounds(rng) : 1;
    /* In place, stock Open MPI 4.1 hangs or is wrong. */
    if (options.stock[call->form] &&
        (call->form == FORM_PERSISTENT || (call->form == FORM_NONBLOCKING && call->op->to_each))) {
        call->in_place = false;
    }
    if (call->comm == &c->fresh && c->free_early && call->rounds > 1) {
        call->rounds = 1;
    }
}

static traffic_kind_t choose_traffic(const case_t *c, rng_t *rng)
{
    bool crossed = !c->waits_between;
    for (int i = 0; i < c->ncalls; i++) {
        crossed &= c->calls[i].form == FORM_NONBLOCKING;
    }
    if (crossed && rng_chance(rng, 45)) {
        return TRAFFIC_CROSSED;
    }
    return rng_chance(rng, 40) ? TRAFFIC_NONE : (traffic_kind_t)(1 + rng_below(rng, TRAFFIC_CROSSED - 1));
}

/* Decides everything that all ranks share, and makes the new communicator. */
static void choose(case_t *c, long number)
{
    rng_t rng = rng_make((uint64_t)number, STREAM_SHAPE, 0);
    memset(c, 0, sizeof(*c));
    c->number = number;
    long dice = rng_below(&rng, 100);
    c->shape = dice < 45 ? SHAPE_SINGLE : dice < 57 ? SHAPE_SEVERAL : dice < 95 ? SHAPE_FLIGHT : SHAPE_BURST;
    c->ncalls = c->shape == SHAPE_SINGLE    ? 1
                : c->shape == SHAPE_SEVERAL ? 2 + (int)rng_below(&rng, 3)
                : c->shape == SHAPE_FLIGHT  ? 2 + (int)rng_below(&rng, MOST_FLIGHT - 1)
                                            : 5 + (int)rng_below(&rng, MOST_CALLS - 4);
    c->skew = rng_chance(&rng, 50) ? SKEW_NONE : rng_chance(&rng, 80) ? SKEW_SOME : SKEW_LATE;
    c->waits_between = rng_chance(&rng, 40);
    c->has_fresh = rng_chance(&rng, 8);
    c->free_early = c->has_fresh && rng_chance(&rng, 60);
    /* Requests of stock Open MPI 4.1 do not outlive their communicator. */
    c->free_early &= !options.stock[FORM_NONBLOCKING] && !options.stock[FORM_PERSISTENT];
    comm_kind_t kind = (comm_kind_t)(COMM_DUP + rng_below(&rng, COMM_KINDS - COMM_DUP));
    if (c->has_fresh) {
        comm_make(&c->fresh, kind, true, rng_make((uint64_t)number, STREAM_COMM, 0));
    }
    int first = (int)rng_below(&rng, POOL);
    for (int i = 0; i < c->ncalls; i++) {
        choose_call(c, i, first, &rng);
    }
    c->traffic = choose_traffic(c, &rng);
    c->traffic_comm = c->calls[rng_below(&rng, c->ncalls)].comm;
    if (c->traffic_comm == &c->fresh && c->free_early) {
        c->traffic_comm = &pool[0];
    }
}

static void prepare(case_t *c)
{
    char text[300];
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        rng_t rng = rng_make((uint64_t)c->number, STREAM_RANK + (uint64_t)world_rank, (uint64_t)i);
        if (call->comm->member) {
            call_prepare(call, &rng);
            cover_call(call, c->shape);
        }
        proof_call(c->number, i, call);
        call_describe(call, text, sizeof(text));
        report_call(i, text);
    }
    snprintf(text, sizeof(text), "%d calls, skew %s, traffic %s%s%s", c->ncalls, skew_names[c->skew],
             traffic_kind_names[c->traffic], c->waits_between ? ", waits between" : "",
             c->free_early ? ", communicator freed early" : "");
    report_case(c->number, text);
    cover(COVER_SKEW, c->skew);
    cover(COVER_TRAFFIC, c->traffic);
    cover(COVER_ORDER, c->waits_between);
    cover(COVER_THREADS, options.threads > 1);
    cover(COVER_COMM_USE, c->free_early ? 2 : c->has_fresh);
}

bool case_run(long number)
{
    static _Thread_local case_t c;
    traffic_t traffic;
    cover_next_case();
    report_case(number, "being derived");
    report_stage("making communicators", -1);
    choose(&c, number);
    prepare(&c);
    report_stage("in the user's messages before", -1);
    traffic_before(&traffic, c.traffic, c.traffic_comm, number, rng_make((uint64_t)number, STREAM_TRAFFIC, 0));
    bool right = case_execute(&c, &traffic);
    proof_case(&c);
    report_stage("in the user's messages after", -1);
    if (!traffic_after(&traffic)) {
        report_failure("the user's own message is wrong");
        right = false;
    }
    report_stage("freeing communicators", -1);
    if (c.has_fresh) {
        comm_free(&c.fresh);
    }
    return right;
}
