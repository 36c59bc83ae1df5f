/*
 * One cell of one side, as OSU measures it: see bench.h. A call is timed, and an untimed barrier follows. The times of all
 * calls are averaged on each rank. Non-blocking calls are measured twice: alone, and with computing between the call and its
 * MPI_Wait that takes as long as the call alone.
 */
#include <string.h>
#include <time.h>

#include "tools/bench/bench.h"

enum { SMALL = 8192 }; /* bytes of a block up to which OSU makes many iterations */

double bench_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* In a queue, the host need not wait. */
static void run(const bench_side_t *side, bench_call_t *call)
{
    switch (side->kind) {
    case BENCH_MPI:
        if (bench_call_run(call) != MPI_SUCCESS) {
            bench_stop("%s: %s has failed", side->name, call->op->name);
        }
        break;
    case BENCH_BARE:
        bare_allgather(call->send, call->recv, (size_t)call->count, call->send == MPI_IN_PLACE);
        break;
    case BENCH_NCCL:
        nccl_run(side->mode, call);
        if (call->op->form != BENCH_QUEUE) {
            nccl_wait(side->mode);
        }
        break;
    default:
        break;
    }
}

/* Waits for what is in the queue. */
static void settle(const bench_side_t *side, const bench_call_t *call)
{
    if (call->op->form != BENCH_QUEUE) {
        return;
    }
    if (side->kind == BENCH_NCCL) {
        nccl_wait(side->mode);
    } else if (side->kind == BENCH_MPI && queue_wait() != MPI_SUCCESS) {
        bench_stop("%s: %s has failed", side->name, call->op->name);
    }
}

/* ---- loops ---- */

typedef struct loop {
    const bench_side_t *side;
    bench_call_t *call;
    int iterations, warmup, row;
} loop_t;

static double alone(const loop_t *l)
{
    double total = 0;

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < l->iterations + l->warmup; i++) {
        double start = MPI_Wtime(), stop;

        for (int k = 0; k < l->row; k++) {
            run(l->side, l->call);
        }
        settle(l->side, l->call);
        stop = MPI_Wtime();
        MPI_Barrier(MPI_COMM_WORLD);
        total += i >= l->warmup ? stop - start : 0;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return total * 1e6 / l->iterations / l->row;
}

static double compute(double us)
{
    double begun = bench_now(), now = begun;

    while (now - begun < us) {
        now = bench_now();
    }
    return now - begun;
}

/* Averages of one rank, in the order of the parts. */
typedef struct parts {
    double init, compute, wait;
} parts_t;

static void beside(const loop_t *l, double pure, parts_t *parts)
{
    *parts = (parts_t){0};
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < l->iterations + l->warmup; i++) {
        double start = bench_now(), begun, ready;

        if (bench_call_start(l->call) != MPI_SUCCESS) {
            bench_stop("%s: %s has failed", l->side->name, l->call->op->name);
        }
        begun = bench_now();
        ready = begun + compute(pure);
        MPI_Wait(&l->call->request, MPI_STATUS_IGNORE);
        if (i >= l->warmup) {
            parts->wait += (bench_now() - ready) / l->iterations;
            parts->compute += (ready - begun) / l->iterations;
            parts->init += (begun - start) / l->iterations;
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- a cell ---- */

static void prepare(bench_t *b, const bench_cell_t *cell, const bench_side_t *side, bench_call_t *call)
{
    bench_call_layout(b, cell, call);
    call->comm = side->comm;
    if (side->kind == BENCH_MPI && bench_is_persistent(call->op) && bench_call_init(call) != MPI_SUCCESS) {
        bench_stop("%s: %s: the initialisation has failed", side->name, call->op->name);
    }
    if (side->kind == BENCH_NCCL && !nccl_prepare(side->mode, call)) {
        bench_stop("%s: %s has failed", side->name, call->op->name);
    }
}

static void finish(const bench_side_t *side, bench_call_t *call)
{
    if (side->kind == BENCH_MPI && bench_is_persistent(call->op)) {
        MPI_Request_free(&call->request);
    }
}

/* One call whose data are compared, on all ranks. */
static bool check(const bench_t *b, const bench_side_t *side, bench_call_t *call, unsigned turn)
{
    int right, all;

    bench_data_fill(b, call, turn);
    MPI_Barrier(MPI_COMM_WORLD);
    run(side, call);
    settle(side, call);
    right = bench_data_check(b, call, turn, side->name);
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return all;
}

static double reduced(double value, MPI_Op how)
{
    double result;

    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, how, MPI_COMM_WORLD);
    return result;
}

static double average(const bench_t *b, double value)
{
    return reduced(value, MPI_SUM) / b->size;
}

static bench_sample_t over_ranks(const bench_t *b, double pure, const parts_t *parts)
{
    return (bench_sample_t){.pure = average(b, pure),
                            .min = reduced(pure, MPI_MIN),
                            .max = reduced(pure, MPI_MAX),
                            .overall = average(b, parts->init + parts->compute + parts->wait),
                            .init = average(b, parts->init),
                            .compute = average(b, parts->compute),
                            .wait = average(b, parts->wait)};
}

bench_sample_t bench_measure(bench_t *b, const bench_cell_t *cell, const bench_side_t *side, unsigned turn, bool *right)
{
    int large = cell->bytes > SMALL;
    bench_call_t call;
    loop_t loop = {side, &call, b->o.iterations[large], b->o.warmup[large], b->o.row};
    parts_t parts = {0};
    double pure;

    prepare(b, cell, side, &call);
    pure = alone(&loop);
    if (cell->op->form == BENCH_NONBLOCKING && side->kind == BENCH_MPI) {
        beside(&loop, pure, &parts);
    }
    *right = !turn || side->kind == BENCH_NOTHING || check(b, side, &call, turn);
    finish(side, &call);
    return over_ranks(b, pure, &parts);
}

long bench_repeat(bench_t *b, const bench_cell_t *cell, const bench_side_t *side, double seconds)
{
    double end = bench_now() + seconds * 1e6;
    bench_call_t call;
    long n = 0;
    int more = 1;

    prepare(b, cell, side, &call);
    while (more) {
        for (int i = 0; i < 50; i++, n++) {
            run(side, &call);
        }
        settle(side, &call);
        more = bench_now() < end;
        MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    finish(side, &call);
    return n;
}
