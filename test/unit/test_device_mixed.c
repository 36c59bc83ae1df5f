/*
 * Calls in which some ranks have device memory and others host memory (device/join.h): data, which way they go, what a call costs,
 * and what happens when a rank cannot join.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "libpersistent.h"
#include "libunit.h"

#define KIB UINT64_C(1024)

enum { RANKS = 3, BYTES = 1300000 };

static uint64_t by_slots(const rank_t *r)
{
    return call_counted(r, DMA_COUNT_calls_slots);
}

static uint64_t joined(const rank_t *r)
{
    return call_counted(r, DMA_COUNT_REASON + DMA_REASON_joined);
}

static atomic_ulong all_joined; /* calls of all ranks */

/* ---- the data ---- */

/* A random kind of memory for each side; rank `host` has host memory alone. */
static call_spec_t random_spec(rank_t *r, int i, int host)
{
    static const call_place_t places[] = {PLACE_HOST, PLACE_DEVICE, PLACE_FINE, PLACE_AWAY, PLACE_PINNED};
    enum { N = sizeof(places) / sizeof(places[0]) };
    bool on_host = r->rank == host;

    return (call_spec_t){.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                         .in_place = i / 4 % 2,
                         .sizes = (uint64_t)i,
                         .elements = i % 5 == 0   ? 60000
                                     : i % 3 == 0 ? 300000
                                                  : BYTES,
                         .vector = i % 7 == 3,
                         .send = on_host ? PLACE_HOST : places[threads_random(r, N)],
                         .recv = on_host ? PLACE_HOST : places[threads_random(r, N)]};
}

static void random_calls(rank_t *r)
{
    uint64_t tag = 0;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < 24; i++) {
        call_spec_t spec = random_spec(r, i, i / 2 % (RANKS + 1)); /* RANKS: any kind on all ranks */
        call_t *c = call_make(r, &spec);

        /* the component does not fill these */
        c->call.send.runtime = c->call.recv.runtime = (const dma_gpu_runtime_t *)(uintptr_t)0x55;
        call_run(r, r->comms[0], c, ++tag);
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        call_free(c);
    }
    must(r, call_counted(r, DMA_COUNT_pinned_most) <= r->proc->params.pinned_bytes, "%lu bytes pinned",
         call_counted(r, DMA_COUNT_pinned_most));
    all_joined += joined(r);
}

/* With an engine and without one, with much and little pinned memory. */
START_TEST(data)
{
    static const uint64_t bounds[] = {UINT64_MAX, 128 * KIB, 700 * KIB, 0};
    job_t job;

    call_streams_late(_i % 2 ? 1000 : 50);
    job = _i < 4 ? call_job(RANKS, random_calls, NULL) : call_job_without_engine(RANKS, random_calls, NULL);
    job.own_counters = true;
    job.params.pinned_bytes = bounds[_i % 4];
    all_joined = 0;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
    ck_assert_uint_eq(all_joined > 0, bounds[_i % 4] > 0);
}
END_TEST

/* Several calls at once, some of them small, on two communicators: the ways of calls that are in progress do not mix. */
static void posted_calls(rank_t *r)
{
    enum { CALLS = 6 };
    call_t *calls[CALLS];
    dma_task_t *tasks[CALLS];

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (uint64_t round = 0; round < 6; round++) {
        for (int i = 0; i < CALLS; i++) {
            call_spec_t spec = random_spec(r, (int)(round * CALLS) + i, (int)round % RANKS);

            calls[i] = call_make(r, &spec);
            call_fill(r, calls[i], 1 + round * CALLS + (uint64_t)i);
            must(r, task_post(r->comms[0], &calls[i]->call, NULL, NULL, &tasks[i]) == DMA_OK, "post");
        }
        for (int i = CALLS - 1; i >= 0; i--) {
            while (dma_task_test(tasks[i]) == DMA_AGAIN) {
                threads_host.progress();
            }
            task_free(tasks[i]);
            call_verify(r, calls[i]);
        }
        threads_barrier(r);
        for (int i = 0; i < CALLS; i++) {
            call_free(calls[i]);
        }
    }
    all_joined += joined(r);
}

START_TEST(in_progress_at_once)
{
    job_t job;

    call_streams_late(300);
    job = _i ? call_job_without_engine(RANKS, posted_calls, NULL) : call_job(RANKS, posted_calls, NULL);
    job.own_counters = true;
    all_joined = 0;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
    ck_assert_uint_gt(all_joined, 0);
}
END_TEST

/* ---- the way ---- */

typedef struct way {
    call_place_t host, others; /* both sides of rank 0; of the others */
    size_t bytes;
    unsigned slots;         /* of 4 calls */
    unsigned joined, cores; /* calls of rank 0 for this reason, and the bytes that its cores receive, in calls */
} way_t;

static void count_calls(rank_t *r)
{
    enum { CALLS = 4 };
    const way_t *way = r->job->arg;
    call_place_t place = r->rank ? way->others : way->host;
    call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = way->bytes, .send = place, .recv = place};
    call_t *c = call_make(r, &spec);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (unsigned i = 0; i < CALLS; i++) {
        call_run(r, r->comms[0], c, i + 1);
    }
    must(r, by_slots(r) == way->slots, "%lu calls by slots", by_slots(r));
    if (!r->rank) {
        must(r, joined(r) == way->joined, "%lu joined", joined(r));
        must(r, call_counted(r, DMA_COUNT_calls_staged) == 0, "host memory was staged");
        must(r, call_counted(r, DMA_COUNT_bytes_cores) == way->cores * way->bytes * RANKS, "%lu bytes",
             call_counted(r, DMA_COUNT_bytes_cores));
    } else if (way->others == PLACE_DEVICE) {
        must(r, call_counted(r, DMA_COUNT_calls_staged) == 4, "staged");
    }
    threads_barrier(r);
    call_free(c);
}

/* The first call shows rank 0 that others have device memory. Small calls are not worth it. Ranks whose devices copy host memory
 * have no device memory. */
START_TEST(later_calls_join)
{
    static const way_t list[] = {
        {PLACE_HOST, PLACE_DEVICE, BYTES, 3, 3, 4},   {PLACE_HOST, PLACE_FINE, BYTES, 3, 3, 4},
        {PLACE_PINNED, PLACE_DEVICE, BYTES, 3, 3, 4}, {PLACE_HOST, PLACE_DEVICE, 100000, 0, 0, 4},
        {PLACE_HOST, PLACE_HOST, BYTES, 0, 0, 4},     {PLACE_HOST, PLACE_PINNED, 2200000, 0, 0, 4},
    };
    job_t job = _i % 2 ? call_job_without_engine(RANKS, count_calls, NULL) : call_job(RANKS, count_calls, NULL);

    job.arg = &list[_i / 2];
    job.own_counters = true;
    call_run_job(&job);
}
END_TEST

static void alternate(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = BYTES, .send = PLACE_HOST, .recv = PLACE_HOST}, other = spec;
    uint64_t tag = 0, before;
    call_t *host, *mixed;

    other.send = other.recv = r->rank ? PLACE_DEVICE : PLACE_HOST;
    host = call_make(r, &spec);
    mixed = call_make(r, &other);
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], mixed, ++tag);
    for (unsigned i = 0; i < DMA_JOINS - 1; i++) {
        call_run(r, r->comms[0], host, ++tag);
    }
    must(r, by_slots(r) == 0, "host memory alone went by slots");
    call_run(r, r->comms[0], mixed, ++tag);
    must(r, by_slots(r) == 1, "it has not joined");
    for (unsigned i = 0; i < DMA_JOINS; i++) {
        call_run(r, r->comms[0], host, ++tag);
    }
    must(r, r->rank || atomic_load(&r->comms[0]->joins) == 0, "it joins for ever");
    before = by_slots(r);
    call_run(r, r->comms[0], mixed, ++tag);
    must(r, by_slots(r) == before, "it has joined");
    call_run(r, r->comms[0], mixed, ++tag);
    must(r, by_slots(r) == before + 1, "it has not joined");
    threads_barrier(r);
    call_free(host);
    call_free(mixed);
}

START_TEST(joining_ends)
{
    job_t job = call_job_without_engine(RANKS, alternate, NULL);

    call_run_job(&job);
}
END_TEST

/* Starts of a persistent call, with the tags from `tag` on. */
static void start_often(rank_t *r, call_t *c, uint64_t tag, int starts)
{
    persistent_t p;

    persistent_make_of(r, &p, c);
    for (int i = 0; i < starts; i++) {
        persistent_start(r, &p, tag + (uint64_t)i);
        persistent_finish(r, &p);
    }
    dma_channel_destroy(p.channel);
}

/* Rank 0 has no runtime. Its persistent calls in host memory join as others do. */
static void persistent_without_runtime(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = BYTES, .send = PLACE_HOST, .recv = PLACE_HOST}, other = spec;
    call_t *host, *mixed;

    other.send = other.recv = r->rank ? PLACE_DEVICE : PLACE_HOST;
    host = call_make(r, &spec);
    mixed = call_make(r, &other);
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], mixed, 1);
    if (!r->rank) {
        r->proc->runtime = NULL;
    }
    start_often(r, host, 2, 4);
    threads_barrier(r);
    call_free(host);
    call_free(mixed);
}

START_TEST(persistent_calls_join)
{
    job_t job = call_job(RANKS, persistent_without_runtime, NULL);

    job.own_counters = true;
    call_run_job(&job);
}
END_TEST

static void calls_without_runtime(rank_t *r)
{
    uint64_t tag = 0;

    if (!r->rank) {
        r->proc->runtime = NULL;
    }
    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < 24; i++) {
        call_spec_t spec = random_spec(r, i, 0);
        call_t *c = call_make(r, &spec);

        call_run(r, r->comms[0], c, ++tag);
        call_run(r, r->comms[0], c, ++tag);
        if (i % 3 == 0) {
            start_often(r, c, tag + 1, 3);
            tag += 3;
        }
        threads_barrier(r);
        call_free(c);
    }
}

START_TEST(no_runtime)
{
    job_t job =
        _i ? call_job_without_engine(RANKS, calls_without_runtime, NULL) : call_job(RANKS, calls_without_runtime, NULL);

    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_mixed");

    unit_loop(suite, data, 0, 8, 180);
    unit_loop(suite, in_progress_at_once, 0, 2, 120);
    unit_loop(suite, later_calls_join, 0, 12, 60);
    unit_test(suite, joining_ends, 60);
    unit_test(suite, persistent_calls_join, 30);
    unit_loop(suite, no_runtime, 0, 2, 60);
    return unit_main(suite);
}
