/*
 * One case: a few calls on one or several communicators, with skew and the user's own messages around them.
 *
 * What all ranks must agree on comes from one stream of random numbers; what MPI leaves to each rank (datatypes with
 * the right signature, where buffers lie, how late it comes) from streams of its own.
 */
#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL = 8 };

typedef enum { SHAPE_SINGLE, SHAPE_SEVERAL, SHAPE_BURST } shape_t;
typedef enum { SKEW_NONE, SKEW_SOME, SKEW_LATE, SKEW_KINDS } skew_kind_t;
static const char *const shape_names[] = {"single", "several", "burst"};
static const char *const skew_names[] = {"none", "some", "late"};

/* Streams of random numbers of a case. */
enum { STREAM_SHAPE = 1, STREAM_COMM = 100, STREAM_TRAFFIC = 200, STREAM_SKEW = 300, STREAM_RANK = 10000 };

typedef struct {
    shape_t shape;
    skew_kind_t skew;
    int ncalls;
    call_t calls[MOST_CALLS];
    comm_t fresh[MOST_CALLS];
    int nfresh;
    traffic_kind_t traffic;
    int traffic_call; /* on whose communicator */
} case_t;

static comm_t pool[POOL];

void case_setup(void)
{
    for (int i = 0; i < POOL; i++) {
        comm_make(&pool[i], (comm_kind_t)(i % COMM_KINDS), false, rng_make(0, (uint64_t)i, 0));
    }
}

void case_teardown(void)
{
    for (int i = 0; i < POOL; i++) {
        comm_free(&pool[i]);
    }
}

static long choose_bytes(rng_t *rng, shape_t shape)
{
    long limit = shape == SHAPE_BURST ? 4096 : shape == SHAPE_SEVERAL ? 65536 : options.max_bytes;
    limit = limit < options.max_bytes ? limit : options.max_bytes;
    long dice = rng_below(rng, 100);
    if (dice < 5) {
        return 0;
    }
    if (dice < 70) {
        return rng_log(rng, 1, limit < 2048 ? limit : 2048);
    }
    if (dice < 85) {
        return rng_log(rng, 1, limit < 32768 ? limit : 32768);
    }
    return rng_log(rng, limit <= 16384 ? 1 : 16384, limit);
}

static const op_t *choose_op(rng_t *rng)
{
    const op_t *op;
    do {
        op = &ops[rng_below(rng, nops)];
    } while (options.only != NULL && strcmp(options.only, op->name) != 0);
    return op;
}

/* Half of the larger sizes are made divisible, so that types of many units fit. */
static long choose_total(rng_t *rng, long bytes, const unit_t *unit)
{
    long total = bytes / unit->bytes;
    total = bytes > 0 && total == 0 ? 1 : total;
    return total > 24 && rng_chance(rng, 50) ? total / 12 * 12 : total;
}

/* Decides everything that all ranks share; makes the fresh communicators. */
static void choose(case_t *c, long number)
{
    rng_t rng = rng_make((uint64_t)number, STREAM_SHAPE, 0);
    memset(c, 0, sizeof(*c));
    long dice = rng_below(&rng, 100);
    c->shape = dice < 60 ? SHAPE_SINGLE : dice < 85 ? SHAPE_SEVERAL : SHAPE_BURST;
    c->ncalls = c->shape == SHAPE_SINGLE    ? 1
                : c->shape == SHAPE_SEVERAL ? 2 + (int)rng_below(&rng, 3)
                                            : 5 + (int)rng_below(&rng, MOST_CALLS - 4);
    c->skew = rng_chance(&rng, 50) ? SKEW_NONE : rng_chance(&rng, 70) ? SKEW_SOME : SKEW_LATE;
    c->traffic = rng_chance(&rng, 40) ? TRAFFIC_NONE : (traffic_kind_t)(1 + rng_below(&rng, TRAFFIC_KINDS - 1));
    c->traffic_call = (int)rng_below(&rng, c->ncalls);
    comm_t *burst[2] = {&pool[rng_below(&rng, POOL)], &pool[rng_below(&rng, POOL)]};
    bool fresh = rng_chance(&rng, 10);
    int fresh_call = (int)rng_below(&rng, c->ncalls);
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        call->op = choose_op(&rng);
        call->unit = (int)rng_below(&rng, UNIT_KINDS);
        call->total = choose_total(&rng, choose_bytes(&rng, c->shape), &units[call->unit]);
        call->in_place = rng_chance(&rng, 30);
        call->odd_ignored = rng_chance(&rng, 50);
        comm_kind_t kind = (comm_kind_t)(COMM_DUP + rng_below(&rng, COMM_KINDS - COMM_DUP));
        call->comm = c->shape == SHAPE_BURST ? burst[rng_below(&rng, 2)] : &pool[rng_below(&rng, POOL)];
        if (fresh && i == fresh_call) {
            call->comm = &c->fresh[c->nfresh++];
            comm_make(call->comm, kind, true, rng_make((uint64_t)number, STREAM_COMM, (uint64_t)i));
        }
    }
}

static uint64_t key_of(long number, int index, int source, int target)
{
    return mix(mix((uint64_t)number * MOST_CALLS + (uint64_t)index, (uint64_t)source), (uint64_t)target);
}

/* The blocks that rank `me` sends (to everyone, or one to each) or receives (one from each). */
static block_t *make_blocks(const call_t *call, long number, int index, bool sending, const type_t *type, int *n)
{
    const comm_t *comm = call->comm;
    *n = sending && !call->op->send_all ? 1 : comm->size;
    block_t *blocks = malloc((size_t)*n * sizeof(*blocks));
    for (int i = 0; i < *n; i++) {
        int source = sending ? comm->rank : i;
        int target = !call->op->send_all ? -1 : sending ? i : comm->rank;
        blocks[i].elements = call->total / type->units;
        blocks[i].displ = i * blocks[i].elements;
        blocks[i].key = key_of(number, index, comm->world[source], target < 0 ? -1 : comm->world[target]);
    }
    return blocks;
}

static type_kind_t choose_kind(rng_t *rng, long total, int unit)
{
    /* A big message in small pieces only measures the datatype engine. */
    bool plain = total * units[unit].bytes > 65536 ? !rng_chance(rng, 20) : rng_chance(rng, 35);
    return plain ? (type_kind_t)rng_below(rng, 2) : (type_kind_t)(2 + rng_below(rng, TYPE_KINDS - 2));
}

static void prepare_side(call_t *call, long number, int index, bool sending, rng_t *rng)
{
    type_t *type = sending ? &call->send_type : &call->recv_type;
    buffer_t *buffer = sending ? &call->send : &call->recv;
    int nblocks = sending && !call->op->send_all ? 1 : call->comm->size;
    type_make(type, choose_kind(rng, call->total, call->unit), call->unit, call->total, nblocks, rng);
    block_t *blocks = make_blocks(call, number, index, sending, type, &nblocks);
    buffer_make(buffer, type, nblocks, blocks, units[call->unit].bytes == 1 ? 1 : 8, rng);
    int which = sending ? ALL_BLOCKS : !call->in_place ? NO_BLOCKS : call->op->send_all ? ALL_BLOCKS : call->comm->rank;
    buffer_fill(buffer, which);
}

static void describe_call(const call_t *call, char *text, size_t room)
{
    const comm_t *comm = call->comm;
    char from[40] = "in place";
    if (comm->comm == MPI_COMM_NULL) {
        snprintf(text, room, "not a member of the %s communicator", comm_kind_names[comm->kind]);
        return;
    }
    if (!call->in_place) {
        snprintf(from, sizeof(from), "from %s(%ld)", type_kind_names[call->send_type.kind], call->send_type.units);
    }
    snprintf(text, room, "%s/%s on %s%s, rank %d of %d, %ld x %s %s to %s(%ld)", call->op->name, call->op->form,
             comm->fresh ? "fresh " : "", comm_kind_names[comm->kind], comm->rank, comm->size, call->total,
             units[call->unit].name, from, type_kind_names[call->recv_type.kind], call->recv_type.units);
}

static const char *size_class(long bytes)
{
    return bytes == 0       ? "0"
           : bytes <= 32    ? "1-32"
           : bytes <= 96    ? "33-96"
           : bytes <= 1024  ? "97-1K"
           : bytes <= 16384 ? "1K-16K"
           : bytes <= 65536 ? "16K-64K"
                            : "64K-1M";
}

static void cover_call(const call_t *call)
{
    char name[40];
    snprintf(name, sizeof(name), "%s/%s", call->op->name, call->op->form);
    cover("operation", name);
    cover("communicator", comm_kind_names[call->comm->kind]);
    cover("communicator", call->comm->fresh ? "fresh" : "used before");
    cover("unit", units[call->unit].name);
    cover("block bytes", size_class(call->total * units[call->unit].bytes));
    cover("buffers", call->in_place ? "in place" : "out of place");
    cover("receive buffer", call->recv.map != NULL ? "fenced" : "guarded");
    cover("receive type", type_kind_names[call->recv_type.kind]);
    snprintf(name, sizeof(name), "%d", call->comm->size);
    cover("communicator size", name);
    if (!call->in_place) {
        cover("send buffer", call->scribble ? "overwritten at once" : "checked");
        cover("send type", type_kind_names[call->send_type.kind]);
        cover("types of a call", call->send_type.kind == call->recv_type.kind ? "alike" : "different");
    }
    if (call->total % 2) {
        cover("buffers", "odd count");
    }
}

static void prepare(case_t *c, long number)
{
    char text[200];
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        rng_t rng = rng_make((uint64_t)number, STREAM_RANK + (uint64_t)world_rank, (uint64_t)i);
        if (call->comm->comm != MPI_COMM_NULL) {
            prepare_side(call, number, i, false, &rng);
            if (!call->in_place) {
                prepare_side(call, number, i, true, &rng);
                call->scribble = rng_chance(&rng, 50);
            }
            cover_call(call);
        }
        describe_call(call, text, sizeof(text));
        report_call(i, text);
    }
    snprintf(text, sizeof(text), "%d calls, skew %s, traffic %s", c->ncalls, skew_names[c->skew],
             traffic_kind_names[c->traffic]);
    report_case(number, text);
    cover("shape", shape_names[c->shape]);
    cover("skew", skew_names[c->skew]);
    cover("traffic", traffic_kind_names[c->traffic]);
}

static void be_late(const case_t *c, int index, rng_t *rng)
{
    if (c->skew == SKEW_SOME && (c->shape != SHAPE_BURST || rng_chance(rng, 20))) {
        skew_some(rng);
    } else if (c->skew == SKEW_LATE && index == 0 && rng_below(rng, world_size) == 0) {
        skew_late(rng);
    }
}

/* Starts all calls in order, which completes the blocking ones, then waits for the rest. */
static void execute(case_t *c, long number)
{
    MPI_Request requests[MOST_CALLS];
    rng_t rng = rng_make((uint64_t)number, STREAM_SKEW, (uint64_t)world_rank);
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        requests[i] = MPI_REQUEST_NULL;
        if (call->comm->comm == MPI_COMM_NULL) {
            continue;
        }
        be_late(c, i, &rng);
        report_stage("in the call", i);
        int code = call->op->start(call, &requests[i]);
        if (code != MPI_SUCCESS) {
            report_mpi_error(call->op->name, code);
        }
        if (call->scribble && requests[i] == MPI_REQUEST_NULL) {
            memset(call->send.memory, 0xEE, call->send.bytes); /* whoever still reads it is too late */
        }
        type_release(&call->recv_type); /* legal at once, even while a request is active */
        type_release(&call->send_type);
    }
    be_late(c, 0, &rng);
    int first = (int)rng_below(&rng, c->ncalls);
    for (int k = 0; k < c->ncalls; k++) {
        int i = (first + k) % c->ncalls;
        report_stage("waiting for the request", i);
        int code = MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS) {
            report_mpi_error("MPI_Wait", code);
        }
    }
}

static bool check_call(call_t *call, int index)
{
    char found[200], line[260];
    bool right = true;
    report_stage("checking", index);
    if (!buffer_check(&call->recv, ALL_BLOCKS, found, sizeof(found))) {
        snprintf(line, sizeof(line), "receive buffer: %s", found);
        report_failure(line);
        right = false;
    }
    if (!call->in_place && !call->scribble && !buffer_check(&call->send, ALL_BLOCKS, found, sizeof(found))) {
        snprintf(line, sizeof(line), "send buffer was written: %s", found);
        report_failure(line);
        right = false;
    }
    return right;
}

static bool check_and_free(case_t *c)
{
    bool right = true;
    for (int i = 0; i < c->ncalls; i++) {
        call_t *call = &c->calls[i];
        if (call->comm->comm == MPI_COMM_NULL) {
            continue;
        }
        right &= check_call(call, i);
        buffer_free(&call->recv);
        type_free(&call->recv_type);
        if (!call->in_place) {
            buffer_free(&call->send);
            type_free(&call->send_type);
        }
    }
    return right;
}

bool case_run(long number)
{
    static case_t c;
    traffic_t traffic;
    cover_next_case();
    report_case(number, "being derived");
    report_stage("making communicators", -1);
    choose(&c, number);
    prepare(&c, number);
    report_stage("in the user's messages before", -1);
    traffic_before(&traffic, c.traffic, c.calls[c.traffic_call].comm, number,
                   rng_make((uint64_t)number, STREAM_TRAFFIC, 0));
    execute(&c, number);
    report_stage("in the user's messages after", -1);
    bool right = traffic_after(&traffic);
    if (!right) {
        report_failure("the user's own message is wrong");
    }
    right &= check_and_free(&c);
    report_stage("freeing communicators", -1);
    for (int i = 0; i < c.nfresh; i++) {
        comm_free(&c.fresh[i]);
    }
    return right;
}
