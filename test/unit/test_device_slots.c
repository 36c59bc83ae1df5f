/*
 * Device memory that goes through pinned memory which the ranks share (device/by_slots.c, device/slots.c): data, when it is
 * done, what a call costs, how much is pinned, and what happens when something fails.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

#define KIB UINT64_C(1024)

enum { RANKS = 3, BYTES = 1300000 };

static uint64_t by_slots(const rank_t *r)
{
    return call_counted(r, DMA_COUNT_calls_slots);
}

/* ---- the data ---- */

/* All operations with blocks of several sizes; `any`: some sides in host memory, or on another device. */
static void random_calls(rank_t *r)
{
    bool any = *(const bool *)r->job->arg;
    uint64_t tag = 1, before;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    before = by_slots(r);
    for (int i = 0; i < 16; i++) {
        call_spec_t spec = {.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                            .in_place = i / 4 % 2,
                            .sizes = (uint64_t)i,
                            .elements = i % 3 == 0 ? 300000 : BYTES,
                            .send = any ? (call_place_t)threads_random(r, PLACES) : PLACE_DEVICE,
                            .recv = any ? (call_place_t)threads_random(r, PLACES) : PLACE_DEVICE};
        call_t *c = call_make(r, &spec);

        call_run(r, r->comms[0], c, ++tag);
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        call_free(c);
    }
    must(r, any || by_slots(r) - before >= 16, "%lu calls by slots", by_slots(r) - before);
    must(r, call_counted(r, DMA_COUNT_pinned_most) <= r->proc->params.pinned_bytes, "%lu bytes pinned",
         call_counted(r, DMA_COUNT_pinned_most));
}

START_TEST(data)
{
    static const uint64_t bounds[] = {UINT64_MAX, 128 * KIB, 700 * KIB, 4096 * KIB};
    static const unsigned late_us[] = {100, 400, 100, 3000}; /* many pieces wait for the smallest slots in turn */
    bool any = _i >= 4;
    job_t job;

    call_streams_late(late_us[_i % 4]);
    job = call_job_without_engine(RANKS, random_calls, &any);
    job.params.pinned_bytes = bounds[_i % 4];
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* Ranks have room for slots of different sizes, and agree on the pieces. */
static void different_bounds(int rank, dma_params_t *params)
{
    static const uint64_t bounds[RANKS] = {8192 * KIB, 100 * KIB, 900 * KIB};

    params->pinned_bytes = bounds[rank];
}

START_TEST(bounds_differ)
{
    bool any = false;
    job_t job;

    call_streams_late(200);
    job = call_job_without_engine(RANKS, random_calls, &any);
    job.tune = different_bounds;
    call_run_job(&job);
}
END_TEST

/* ---- when it is done ---- */

typedef struct when {
    size_t bytes;
    call_place_t send, recv;
    bool vector;
    unsigned calls, slots; /* of them by slots */
} when_t;

static void count_calls(rank_t *r)
{
    const when_t *when = r->job->arg;
    call_spec_t spec = {
        .coll = DMA_ALLGATHER, .elements = when->bytes, .send = when->send, .recv = when->recv, .vector = when->vector};
    call_t *c = call_make(r, &spec);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (unsigned i = 0; i < when->calls; i++) {
        call_run(r, r->comms[0], c, i + 1);
    }
    must(r, !r->job->own_counters || by_slots(r) == when->slots, "%lu calls by slots", by_slots(r));
    threads_barrier(r);
    call_free(c);
}

static void engine_on_all_but_one(int rank, dma_params_t *params)
{
    snprintf(params->engine, sizeof(params->engine), "%s", rank == 1 ? "none" : "threads");
}

/* An engine serves only some ranks: the others go by slots with them. */
START_TEST(one_rank_without_engine)
{
    when_t when = {.bytes = 400000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .calls = 4, .slots = 4};
    job_t job = call_job(RANKS, count_calls, NULL);

    job.arg = &when;
    job.own_counters = true;
    job.tune = engine_on_all_but_one;
    call_run_job(&job);
}
END_TEST

static void no_scratch(int rank, dma_params_t *params)
{
    params->scratch_bytes = rank ? params->scratch_bytes : 0;
}

/* One rank has no scratch memory. The others have, for which they need it too. */
START_TEST(one_rank_without_scratch)
{
    when_t when = {.bytes = 400000, .send = PLACE_DEVICE, .recv = PLACE_FINE, .calls = 4, .slots = 4};
    job_t job = call_job(RANKS, count_calls, NULL);

    job.arg = &when;
    job.own_counters = true;
    job.tune = no_scratch;
    call_run_job(&job);
}
END_TEST

static dma_status_t refuse_to_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    (void)handle;
    (void)base;
    return DMA_UNSUPPORTED;
}

/* Peers cannot open memory: the ranks notice that in the call, and later calls do not try any more. */
START_TEST(memory_cannot_be_opened)
{
    when_t when = {.bytes = 400000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .calls = 8, .slots = 8};
    job_t job = call_job(RANKS, count_calls, NULL);

    ((dma_gpu_runtime_t *)(uintptr_t)job.runtime)->ipc_open = refuse_to_open;
    job.arg = &when;
    call_run_job(&job);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_slots), RANKS * 8);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_peer), RANKS * DEVICE_MAX_FAILED);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_off), RANKS * (8 - DEVICE_MAX_FAILED));
}
END_TEST

/* Small calls are packed in host memory of each rank. */
START_TEST(others)
{
    static const when_t list[] = {
        {.bytes = 100000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .calls = 3},
        {.bytes = 80000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .vector = true, .calls = 3},
        {.bytes = 100000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .vector = true, .calls = 3, .slots = 3},
        {.bytes = 400000, .send = PLACE_HOST, .recv = PLACE_HOST, .calls = 3},
        {.bytes = 400000, .send = PLACE_DEVICE, .recv = PLACE_HOST, .calls = 3, .slots = 3},
        {.bytes = 400000, .send = PLACE_HOST, .recv = PLACE_DEVICE, .calls = 3, .slots = 3},
    };
    job_t job = call_job_without_engine(RANKS, count_calls, &list[_i]);

    call_run_job(&job);
}
END_TEST

/* ---- what a call costs ---- */

typedef struct cost {
    dma_coll_t coll;
    uint64_t bound, pieces; /* of a call */
} cost_t;

static void costs(rank_t *r)
{
    static const char *const free_of[] = {"alloc",         "free",         "host_register", "host_unregister",
                                          "stream_create", "event_create", "copy",          "stream_sync"};
    enum { CALLS = 3, KINDS = sizeof(free_of) / sizeof(free_of[0]) };
    const cost_t *cost = r->job->arg;
    uint64_t blocks = dma_coll_gathers(cost->coll) ? 1 : RANKS - 1, cores;
    unsigned before[KINDS], copies, records, want;
    call_spec_t spec = {.coll = cost->coll, .elements = BYTES, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        before[i] = fake_gpu_calls(free_of[i]);
    }
    copies = fake_gpu_calls("copy_async");
    records = fake_gpu_calls("event_record");
    cores = call_counted(r, DMA_COUNT_bytes_cores);
    threads_barrier(r);
    for (uint64_t i = 0; i < CALLS; i++) {
        call_run(r, r->comms[0], c, 2 + i);
    }
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        must(r, fake_gpu_calls(free_of[i]) == before[i], "%u calls of %s", fake_gpu_calls(free_of[i]) - before[i],
             free_of[i]);
    }
    /* each piece in and out, and the own block */
    want = (unsigned)(CALLS * RANKS * (1 + cost->pieces * (blocks + RANKS - 1)));
    copies = fake_gpu_calls("copy_async") - copies;
    records = fake_gpu_calls("event_record") - records;
    must(r, copies == want, "%u copies, not %u", copies, want);
    must(r, records == CALLS * RANKS * 2 * cost->pieces, "%u events", records);
    must(r, call_counted(r, DMA_COUNT_bytes_cores) == cores, "cores have copied");
    must(r, call_counted(r, DMA_COUNT_pinned_most) <= cost->bound, "%lu bytes pinned",
         call_counted(r, DMA_COUNT_pinned_most));
    must(r, fake_gpu_pinned_most() <= RANKS * RANKS * cost->bound, "%lu bytes registered", fake_gpu_pinned_most());
    threads_barrier(r);
    call_free(c);
}

/* A call is done in 8 pieces, or in as many as the slots need. */
static const cost_t cost_list[] = {
    {DMA_ALLGATHER, 8192 * KIB, 8},
    {DMA_ALLTOALL, 8192 * KIB, 8},
    {DMA_ALLGATHER, 256 * KIB, (BYTES + 64 * KIB - 1) / (64 * KIB)},
    {DMA_ALLTOALL, 256 * KIB, (BYTES + 32 * KIB - 1) / (32 * KIB)},
};

START_TEST(calls_cost_their_copies)
{
    job_t job;

    call_streams_late(20);
    job = call_job_without_engine(RANKS, costs, &cost_list[_i]);
    job.params.pinned_bytes = cost_list[_i].bound;
    job.params.arena_bytes = 16384 * KIB; /* else slots are smaller for want of it */
    call_run_job(&job);
}
END_TEST

/* A rank that has filled its slots does not wait for its peers' votes before it fills the next ones: while the device of rank 1
 * is held, rank 0 has all of its slots filled, and no more. */
static void runs_ahead(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = BYTES, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);
    uint64_t position = 0;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_hold(1, true);
    }
    threads_barrier(r);
    if (r->rank == 0) {
        const dma_pipe_t *p = &r->comms[0]->device->by_slots.pipe;
        dma_task_t *task;

        call_fill(r, c, 2);
        must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
        while (p->filled != DMA_SLOTS) {
            threads_host.progress();
        }
        position = dma_device_position(r->comms[0], task);
        for (int i = 0; i < 1000; i++) {
            threads_host.progress();
        }
        must(r, p->filling == DMA_SLOTS && p->votes == 2 && p->draining == 0, "%lu pieces, %lu votes, %lu taken",
             p->filling, p->votes, p->draining);
        must(r, dma_device_position(r->comms[0], task) == position, "it has moved");
        fake_gpu_hold(1, false);
        while (dma_task_test(task) == DMA_AGAIN) {
            threads_host.progress();
        }
        task_free(task);
        call_verify(r, c);
    } else {
        call_run(r, r->comms[0], c, 2);
    }
    threads_barrier(r);
    call_free(c);
}

START_TEST(slots_are_filled_ahead)
{
    job_t job = call_job_without_engine(2, runs_ahead, NULL);

    call_run_job(&job);
}
END_TEST

static dma_status_t (*fake_copy)(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes);
static _Thread_local uint64_t first_copied_to;

static dma_status_t note_copy(dma_gpu_stream_t *stream, uint64_t dst, uint64_t src, uint64_t bytes)
{
    first_copied_to = first_copied_to ? first_copied_to : dst;
    return fake_copy(stream, dst, src, bytes);
}

static void copies_first(rank_t *r)
{
    call_spec_t spec = {.coll = DMA_ALLGATHER, .elements = BYTES, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    first_copied_to = 0;
    call_run(r, r->comms[0], c, 1);
    must(r, first_copied_to == (uintptr_t)r->comms[0]->device->by_slots.slots[r->rank], "not into the first slot");
    threads_barrier(r);
    call_free(c);
}

/* Peers wait for what this rank sends, not for its own block. */
START_TEST(slots_are_filled_first)
{
    job_t job = call_job_without_engine(2, copies_first, NULL);

    fake_copy = job.runtime->copy_async;
    ((dma_gpu_runtime_t *)(uintptr_t)job.runtime)->copy_async = note_copy;
    call_run_job(&job);
}
END_TEST

/* ---- memory ---- */

/* A rank without slots: the host plan carries the call out on all. */
static void no_pins(int rank, dma_params_t *params)
{
    params->pinned_bytes = rank == 1 ? 0 : params->pinned_bytes;
}

START_TEST(one_rank_without_slots)
{
    when_t when = {.bytes = 400000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .calls = 3};
    job_t job = call_job_without_engine(RANKS, count_calls, &when);

    job.tune = no_pins;
    call_run_job(&job);
}
END_TEST

static void refused(rank_t *r)
{
    const int *which = r->job->arg;
    call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 400000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &spec);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    if (r->rank == 0) {
        fake_gpu_fail("host_register", (unsigned)*which, DMA_UNSUPPORTED);
    }
    threads_barrier(r);
    call_run(r, r->comms[0], c, 1);
    must(r, by_slots(r) == 0, "by slots, without them");
    call_run(r, r->comms[0], c, 2);
    call_run(r, r->comms[0], c, 3);
    must(r, by_slots(r) == 2, "%lu calls by slots", by_slots(r));
    threads_barrier(r);
    call_free(c);
}

/* Registering the own slots fails on a rank, or those of a peer. */
START_TEST(registering_fails)
{
    job_t job = call_job_without_engine(RANKS, refused, &_i);

    call_run_job(&job);
}
END_TEST

/* ---- what can fail ---- */

static void breaks(rank_t *r)
{
    static const char *const functions[] = {"copy_async", "event_query", "event_record"};
    const int *which = r->job->arg;
    call_spec_t spec = {
        .coll = DMA_ALLTOALL, .elements = BYTES, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .sizes = 1};
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail(functions[*which % 3], (unsigned)*which / 3 * 5, DMA_ERR_ENGINE);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    must(r, !r->comms[0]->device->by_slots.memory, "slots are still borrowed");
    threads_barrier(r);
    call_free(c);
}

START_TEST(copies_fail)
{
    job_t job;

    call_streams_late(500);
    job = call_job_without_engine(RANKS, breaks, &_i);
    call_run_job(&job);
}
END_TEST

/* Blocks of an all-to-all-v of which two ranks disagree. */
static void disagree(rank_t *r)
{
    call_spec_t spec = {
        .coll = DMA_ALLTOALLV, .elements = BYTES, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .sizes = 3};
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        c->send_counts[0]--;
    }
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

START_TEST(sizes_differ)
{
    job_t job = call_job_without_engine(2, disagree, NULL);

    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_slots");

    unit_loop(suite, data, 0, 8, 120);
    unit_test(suite, bounds_differ, 60);
    unit_test(suite, one_rank_without_engine, 60);
    unit_test(suite, one_rank_without_scratch, 60);
    unit_test(suite, memory_cannot_be_opened, 60);
    unit_loop(suite, others, 0, 6, 60);
    unit_loop(suite, calls_cost_their_copies, 0, sizeof(cost_list) / sizeof(cost_list[0]), 60);
    unit_test(suite, slots_are_filled_ahead, 60);
    unit_test(suite, slots_are_filled_first, 60);
    unit_test(suite, one_rank_without_slots, 60);
    unit_loop(suite, registering_fails, 0, RANKS * RANKS, 60);
    unit_loop(suite, copies_fail, 0, 12, 60);
    unit_test(suite, sizes_differ, 60);
    return unit_main(suite);
}
