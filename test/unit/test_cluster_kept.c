/*
 * Plans that are kept for calls whose blocks have different sizes. Ranks are threads. Calls are equal to an earlier
 * one, or differ from it in one number. The tests count how often plans are built, and show which plans are too large
 * to be kept.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "libthreads.h"
#include "libunit.h"
#include "libwire.h"
#include "plan/cluster/cluster.h"

#define MOST  9000 /* bytes from block to block; a hole fills the rest */
#define RANKS 6

static _Atomic int built, huge;

dma_status_t __real_dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **plan);
dma_status_t __wrap_dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **plan);
size_t __real_dma_cluster_bytes(const dma_cluster_plan_t *plan);
size_t __wrap_dma_cluster_bytes(const dma_cluster_plan_t *plan);

dma_status_t __wrap_dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **plan)
{
    built += !req->relayed && dma_coll_sizes(req->coll) != DMA_SIZES_EQUAL;
    return __real_dma_cluster_build(req, variant, plan);
}

size_t __wrap_dma_cluster_bytes(const dma_cluster_plan_t *plan)
{
    return huge ? CLUSTER_KEPT_BYTES + 1 : __real_dma_cluster_bytes(plan);
}

/* ---- calls ---- */

/* What differs between calls. */
typedef struct form {
    dma_coll_t coll;
    bool in_place, mutual;             /* `mutual`: a rank sends to each rank as much as it receives from it */
    int bytes, odd, hole_out, hole_in; /* `odd`: one block is longer; holes before the last block */
} form_t;

typedef struct part {
    dma_comm_t *comm;
    uint8_t *send, *recv;
    int numbers[4][RANKS]; /* counts and displacements of what is sent and of what is received */
} part_t;

static const int *node_firsts; /* by rank */

static void open_part(rank_t *r, part_t *p)
{
    p->comm = wire_comm(r, node_firsts[r->rank]);
    threads_prepare(r, p->comm);
    p->send = malloc(RANKS * MOST);
    p->recv = malloc(RANKS * MOST);
}

static void close_part(part_t *p)
{
    dma_comm_destroy(p->comm);
    free(p->send);
    free(p->recv);
}

/* In an all-gather-v the size depends on the source only. */
static int bytes_of(const form_t *f, int from, int to)
{
    int bytes = f->bytes + 13 * from;

    if (dma_coll_gathers(f->coll)) {
        return bytes + (from == 1 ? f->odd : 0);
    }
    bytes += f->mutual ? 13 * to : 700 * to % 900;
    return bytes + (from + to == 1 ? f->odd : 0);
}

static dma_call_t call_of(rank_t *r, part_t *p, const form_t *f, uint64_t tag)
{
    dma_call_t call = {.coll = f->coll, .in_place = f->in_place};
    bool gathers = dma_coll_gathers(f->coll);

    memset(p->recv, 0x55, RANKS * MOST);
    for (int k = 0; k < r->n; k++) {
        int counts[2] = {bytes_of(f, r->rank, k), bytes_of(f, k, r->rank)};

        for (int side = 0; side < 2; side++) {
            p->numbers[2 * side][k] = counts[side];
            p->numbers[2 * side + 1][k] = k * MOST + (k == r->n - 1 ? (side ? f->hole_in : f->hole_out) : 0);
        }
        if (f->in_place && (!gathers || k == r->rank)) {
            data_fill(p->recv + p->numbers[3][k], tag + (gathers ? 0 : (uint64_t)k), r->rank, (size_t)counts[0]);
        } else if (!f->in_place && (!gathers || k == 0)) {
            data_fill(p->send + (gathers ? 0 : p->numbers[1][k]), tag + (uint64_t)k, r->rank, (size_t)counts[0]);
        }
    }
    call.send = data_buffer(p->send, gathers ? (size_t)p->numbers[0][0] : 0);
    call.recv = data_buffer(p->recv, 0);
    if (!gathers) {
        call.send.counts = p->numbers[0];
        call.send.displs = p->numbers[1];
    }
    call.recv.counts = p->numbers[2];
    call.recv.displs = p->numbers[3];
    return call;
}

static void check(rank_t *r, const part_t *p, const form_t *f, uint64_t tag)
{
    for (int k = 0; k < r->n; k++) {
        const uint8_t *block = p->recv + k * MOST + (k == r->n - 1 ? f->hole_in : 0);
        size_t bytes = (size_t)bytes_of(f, k, r->rank);
        size_t b = data_wrong(block, tag + (dma_coll_gathers(f->coll) ? 0 : (uint64_t)r->rank), k, bytes);

        must(r, b == bytes, "call %d: byte %zu of rank %d is wrong", (int)tag, b, k);
    }
}

static void run_call(rank_t *r, part_t *p, const form_t *f, uint64_t tag)
{
    dma_call_t call = call_of(r, p, f, tag);

    must(r, dma_comm_run(p->comm, &call) == DMA_OK, "call %d: %s", (int)tag, dma_comm_reason(p->comm));
    check(r, p, f, tag);
}

static const int of_six[] = {0, 0, 0, 3, 4, 4}, in_turn[] = {0, 1, 0, 1, 0, 1}, alone[] = {0, 1, 2, 3};

static void run_job(int n, const int *firsts, void (*body)(rank_t *))
{
    job_t job = threads_job(n, body);

    node_firsts = firsts;
    job.ncomms = 2;
    job.net_ops = &wire_threads;
    job.params.net_chunk_bytes = 4096;
    threads_run(&job);
    wire_end();
}

/* ---- tests ---- */

/* Each call differs from an earlier one in one thing, or in nothing. */
static void almost_the_same(rank_t *r)
{
    static const form_t forms[] = {
        {DMA_ALLTOALLV, false, true, 900, 0, 0, 0},    {DMA_ALLTOALLV, false, true, 900, 0, 3, 0},
        {DMA_ALLTOALLV, false, true, 900, 0, 0, 5},    {DMA_ALLTOALLV, false, true, 900, 1, 0, 0},
        {DMA_ALLTOALLV, true, true, 900, 0, 0, 0},     {DMA_ALLTOALLV, true, true, 900, 0, 0, 5},
        {DMA_ALLTOALLV, false, false, 6000, 0, 0, 0},  {DMA_ALLTOALLV, false, false, 6000, 800, 0, 0},
        {DMA_ALLGATHERV, false, false, 900, 0, 0, 0},  {DMA_ALLGATHERV, false, false, 900, 0, 0, 5},
        {DMA_ALLGATHERV, true, false, 900, 0, 0, 0},   {DMA_ALLGATHERV, false, false, 900, 1, 0, 0},
        {DMA_ALLGATHERV, false, false, 6000, 0, 0, 0}, {DMA_ALLGATHERV, false, false, 6000, 800, 0, 0},
    };
    const int n = sizeof(forms) / sizeof(forms[0]);
    part_t p;

    open_part(r, &p);
    for (int i = 0; i < 6 * n; i++) { /* each again, then the one before it, then the next */
        run_call(r, &p, &forms[(i / 6 + (i % 3 == 2 ? n - 1 : 0)) % n], 100 * (uint64_t)i);
    }
    close_part(&p);
}

START_TEST(calls_that_differ_in_one_number)
{
    run_job(6, of_six, almost_the_same);
    run_job(6, in_turn, almost_the_same);
    run_job(4, alone, almost_the_same);
}
END_TEST

static const form_t there = {DMA_ALLTOALLV, false, false, 500, 0, 0, 0},
                    back = {DMA_ALLTOALLV, false, false, 700, 0, 2, 3};

static void there_and_back(rank_t *r)
{
    part_t p;

    open_part(r, &p);
    for (uint64_t i = 0; i < 10; i++) {
        run_call(r, &p, i % 2 ? &back : &there, 100 * i);
    }
    close_part(&p);
}

static void count(void *arg, dma_status_t status)
{
    *(_Atomic int *)arg += status == DMA_OK ? 1 : 100;
}

static void starts(rank_t *r)
{
    dma_channel_t *channel;
    _Atomic int ended = 0;
    dma_call_t call;
    part_t p;

    open_part(r, &p);
    call = call_of(r, &p, &there, 100);
    must(r, dma_channel_create(p.comm, &call, count, (void *)&ended, &channel) == DMA_OK, "channel");
    for (int i = 1; i <= 10; i++) {
        call_of(r, &p, &there, 100 * (uint64_t)i);
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
        while (ended < i) {
            dma_proc_progress(r->proc);
            sched_yield();
        }
        must(r, ended == i, "a start has failed");
        check(r, &p, &there, 100 * (uint64_t)i);
    }
    dma_channel_destroy(channel);
    close_part(&p);
}

START_TEST(plans_are_built_once)
{
    built = 0;
    run_job(4, alone, there_and_back);
    ck_assert_int_eq(built, 4 * 2);
    built = 0;
    run_job(4, alone, starts);
    ck_assert_int_eq(built, 4);
}
END_TEST

START_TEST(a_large_plan_is_not_kept)
{
    built = 0;
    huge = 1;
    run_job(4, alone, there_and_back);
    ck_assert_int_eq(built, 4 * 10);
    huge = 0;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_kept");

    unit_test(suite, calls_that_differ_in_one_number, 30);
    unit_test(suite, plans_are_built_once, 20);
    unit_test(suite, a_large_plan_is_not_kept, 20);
    return unit_main(suite);
}
