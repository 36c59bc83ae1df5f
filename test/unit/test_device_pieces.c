/*
 * Calls that are larger than the scratch memory of a rank (device/pieces.c): data, what is held at once, what a call costs,
 * and what happens when something fails.
 */
#include <string.h>

#include "device/device.h"
#include "engine/stream/stream.h"
#include "libengine_call.h"
#include "libodd.h"
#include "libunit.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)

enum { RANKS = 3, BYTES = 50000 };

/* Different bounds, so that ranks would take different pieces if each decided for itself. */
static void small_bounds(int rank, dma_params_t *params)
{
    static const uint64_t bounds[RANKS] = {140 * KIB, 101 * KIB, 120 * KIB};

    params->scratch_bytes = bounds[rank];
}

/* ---- the data ---- */

static void served(rank_t *r)
{
    const odd_t *odd = r->job->arg;
    uint64_t tag = 1, staged = call_counted(r, DMA_COUNT_calls_staged);

    odd_begin(r, r->comms[0]);
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (size_t bytes = 300; bytes <= BYTES; bytes += (BYTES - 300) / 2) {
                call_spec_t spec = odd_spec(r, odd, (dma_coll_t)coll, in_place, bytes);
                call_t *c;

                if (in_place && (odd_places[odd->which].recv == PLACE_HOST || (odd->out && coll >= DMA_ALLTOALL))) {
                    continue;
                }
                c = call_make(r, &spec);
                call_run(r, r->comms[0], c, ++tag);
                call_run(r, r->comms[0], c, ++tag);
                threads_barrier(r);
                call_free(c);
            }
        }
    }
    must(r, call_counted(r, DMA_COUNT_calls_staged) == staged, "a call went through the host");
    must(r, call_counted(r, DMA_COUNT_calls_pieces) >= 2, "%lu calls in pieces",
         call_counted(r, DMA_COUNT_calls_pieces));
    must(r, call_counted(r, DMA_COUNT_scratch_most) <= r->proc->params.scratch_bytes, "%lu bytes held",
         call_counted(r, DMA_COUNT_scratch_most));
    must(r, fake_gpu_most(r->rank) <= r->proc->params.scratch_bytes, "%lu bytes allocated", fake_gpu_most(r->rank));
}

static void run_served(odd_t odd, const engine_options_t *options)
{
    job_t job = call_job(RANKS, served, options);

    job.arg = &odd;
    job.tune = small_bounds;
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}

START_TEST(all_ranks_odd)
{
    run_served((odd_t){.which = _i, .all = true}, NULL);
}
END_TEST

START_TEST(one_rank_odd)
{
    run_served((odd_t){.which = _i}, NULL);
}
END_TEST

START_TEST(shapes)
{
    run_served((odd_t){.which = _i, .all = true, .vector = true}, NULL);
}
END_TEST

/* Engines and streams are late at random, so that whatever may overlap does. */
START_TEST(late_engines_and_streams)
{
    engine_options_t options = {.seed = unit_seed(), .max_ways = 16, .late_us = 300, .features = DMA_GPU_SWAP_PACKETS};

    call_streams_late(_i % 2 ? 2000 : 30);
    run_served((odd_t){.which = _i / 2 ? 6 : 1, .all = true}, &options);
}
END_TEST

/* ---- the stream engine ---- */

static const dma_gpu_engine_t *const stream_engines[] = {&dma_gpu_engine_stream, NULL};

START_TEST(stream_engine)
{
    odd_t odd = {.which = _i % ODD_PLACES, .all = _i < ODD_PLACES, .out = true};
    job_t job;

    call_streams_late(100);
    job = call_job(RANKS, served, NULL);
    job.engines = stream_engines;
    job.arg = &odd;
    job.tune = small_bounds;
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- what it costs ---- */

static void costs(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLTOALL, false, BYTES);
    call_t *c = call_make(r, &spec);
    static const char *const free_of[] = {"alloc", "free", "stream_create", "event_create", "stream_sync", "copy"};
    enum { CALLS = 10, KINDS = sizeof(free_of) / sizeof(free_of[0]) };
    unsigned before[KINDS];

    odd_begin(r, r->comms[0]);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        before[i] = fake_gpu_calls(free_of[i]);
    }
    threads_barrier(r);
    for (int i = 0; i < CALLS; i++) {
        call_run(r, r->comms[0], c, (uint64_t)(10 + i));
    }
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        must(r, fake_gpu_calls(free_of[i]) == before[i], "%u calls of %s", fake_gpu_calls(free_of[i]) - before[i],
             free_of[i]);
    }
    threads_barrier(r);
    call_free(c);
}

START_TEST(pieces_cost_their_copies)
{
    job_t job = call_job(RANKS, costs, NULL);

    job.tune = small_bounds;
    call_run_job(&job);
    ck_assert_uint_ge(counts_sum(DMA_COUNT_calls_pieces), 11 * RANKS);
    ck_assert_uint_ge(reasons_count(DMA_REASON_scratch_bound), 11 * RANKS);
}
END_TEST

/* ---- the pool ---- */

/* Communicators use the same block in turn, and peers open it once. */
static void in_turn(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLGATHER, false, 5000);
    call_t *c = call_make(r, &spec);

    for (int i = 0; i < 4; i++) {
        odd_begin(r, r->comms[i]);
        call_run(r, r->comms[i], c, (uint64_t)(10 + i));
    }
    must(r, fake_gpu_most(r->rank) < 2 * (3 * 5000 + 1), "%lu bytes for communicators that take turns",
         fake_gpu_most(r->rank));
    threads_barrier(r);
    call_free(c);
    for (int i = 0; i < 4; i++) {
        dma_comm_destroy(r->comms[i]);
        r->comms[i] = NULL;
    }
    must(r, fake_gpu_given(r->rank) == 0, "%lu bytes stay when the last communicator has gone",
         fake_gpu_given(r->rank));
    must(r, call_counted(r, DMA_COUNT_scratch_held) == 0, "%lu bytes are counted",
         call_counted(r, DMA_COUNT_scratch_held));
}

START_TEST(communicators_share_a_block)
{
    job_t job = call_job(RANKS, in_turn, NULL);

    job.ncomms = 4;
    job.own_counters = true;
    call_run_job(&job);
}
END_TEST

/* Calls of several communicators at once, whose buffers are each larger than the bound, and posted calls of one. */
static void at_once(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    enum { CALLS = 6 };
    call_t *c[CALLS];
    dma_task_t *task[CALLS];

    for (int i = 0; i < 3; i++) {
        odd_begin(r, r->comms[i]);
    }
    for (uint64_t round = 0; round < 8; round++) {
        for (int i = 0; i < CALLS; i++) {
            call_spec_t spec = odd_spec(r, &odd, (dma_coll_t)(i % DMA_COLL_COUNT), i > 3, BYTES);
            dma_status_t status;

            c[i] = call_make(r, &spec);
            call_fill(r, c[i], 100 * round + (uint64_t)i);
            status = task_post(r->comms[i % 3], &c[i]->call, NULL, NULL, &task[i]);
            must(r, status == DMA_OK, "%s", dma_status_name(status));
        }
        for (int i = CALLS - 1; i >= 0; i--) {
            dma_status_t status;

            while ((status = dma_task_test(task[i])) == DMA_AGAIN) {
                dma_proc_progress(r->proc);
                sched_yield();
            }
            must(r, status == DMA_OK, "%s", dma_comm_reason(r->comms[i % 3]));
            call_verify(r, c[i]);
            task_free(task[i]);
        }
        must(r, fake_gpu_most(r->rank) <= r->proc->params.scratch_bytes, "%lu bytes", fake_gpu_most(r->rank));
        threads_barrier(r);
        for (int i = 0; i < CALLS; i++) {
            call_free(c[i]);
        }
    }
}

static void shared_bound(int rank, dma_params_t *params)
{
    params->scratch_bytes = 200 * KIB + (uint64_t)rank * 32 * KIB;
}

START_TEST(calls_at_once)
{
    job_t job;

    call_streams_late(_i ? 200 : 0);
    job = call_job(RANKS, at_once, NULL);
    job.ncomms = 3;
    job.tune = shared_bound;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
    ck_assert_uint_gt(counts_sum(DMA_COUNT_calls_pieces), 0);
}
END_TEST

static void nothing(void *arg, dma_status_t status)
{
    (void)arg;
    (void)status;
}

/* Calls of one communicator that wait behind each other. */
static void posted(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLGATHER, false, 5000);
    enum { CALLS = 5 };
    call_t *c[CALLS];
    dma_task_t *task[CALLS];
    int left = CALLS;

    odd_begin(r, r->comms[0]);
    for (int i = 0; i < CALLS; i++) {
        c[i] = call_make(r, &spec);
        call_fill(r, c[i], 10 + (uint64_t)i);
    }
    engine_hold(r->rank, true);
    threads_barrier(r);
    for (int i = 0; i < CALLS; i++) {
        must(r, task_post(r->comms[0], &c[i]->call, nothing, NULL, &task[i]) == DMA_OK, "post");
    }
    threads_barrier(r);
    engine_hold(r->rank, false);
    while (left) {
        dma_proc_progress(r->proc);
        left = 0;
        for (int i = 0; i < CALLS; i++) {
            left += dma_task_test(task[i]) == DMA_AGAIN;
        }
    }
    must(r, fake_gpu_most(r->rank) < 2 * (3 * 5000 + 1), "%lu bytes for calls one after the other",
         fake_gpu_most(r->rank));
    threads_barrier(r);
    for (int i = 0; i < CALLS; i++) {
        call_verify(r, c[i]);
        task_free(task[i]);
        call_free(c[i]);
    }
}

START_TEST(posted_calls_use_one_block)
{
    job_t job = call_job(RANKS, posted, NULL);

    call_run_job(&job);
}
END_TEST

/* ---- what can fail ---- */

/* The device has room for less than the bound. */
static void little_room(rank_t *r)
{
    const odd_t odd = {.which = 1};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLTOALL, false, 1100000);
    call_t *c = call_make(r, &spec);

    odd_begin(r, r->comms[0]);
    if (r->rank == 1) {
        fake_gpu_room(1, 3000 * KIB);
    }
    threads_barrier(r);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    call_free(c);
}

START_TEST(device_has_little_room)
{
    job_t job = call_job(RANKS, little_room, NULL);

    call_run_job(&job);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_pieces), RANKS);
    ck_assert_uint_eq(reasons_count(DMA_REASON_scratch_bound), 1);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_staged), 0);
}
END_TEST

static void no_bytes(int rank, dma_params_t *params)
{
    params->scratch_bytes = rank == 1 ? 0 : 20 * KIB;
}

/* Without any scratch memory a call goes through the host, which needs no agreement. */
START_TEST(nothing_is_left)
{
    job_t job = call_job(RANKS, costs, NULL);

    job.tune = no_bytes;
    job.body = little_room;
    call_run_job(&job);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_pieces), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_scratch), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* One rank wants pieces and another has host memory: the call that was to go in pieces goes through the host. */
static void mixed(rank_t *r)
{
    const odd_t odd = {.which = 1};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLTOALL, false, BYTES);
    call_t *c;

    odd_begin(r, r->comms[0]);
    if (r->rank == 2) {
        spec.send = spec.recv = PLACE_HOST;
    }
    c = call_make(r, &spec);
    for (uint64_t i = 2; i < 6; i++) {
        call_run(r, r->comms[0], c, i);
    }
    must(r, call_counted(r, DMA_COUNT_scratch_most) <= r->proc->params.scratch_bytes, "beyond the bound");
    threads_barrier(r);
    call_free(c);
}

START_TEST(a_rank_with_host_memory)
{
    job_t job = call_job(RANKS, mixed, NULL);

    job.tune = small_bounds;
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* Memory cannot be opened: the vote after the records is no, and nothing is done in pieces. */
static void unopened(rank_t *r)
{
    const odd_t odd = {.which = 1};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLGATHER, false, BYTES);
    call_t *c = call_make(r, &spec);

    odd_begin(r, r->comms[0]);
    threads_barrier(r);
    if (r->rank == 0) {
        fake_gpu_fail("ipc_open", 0, DMA_UNSUPPORTED);
    }
    threads_barrier(r);
    for (uint64_t i = 2; i < 5; i++) {
        call_run(r, r->comms[0], c, i);
    }
    threads_barrier(r);
    call_free(c);
}

START_TEST(memory_that_cannot_be_opened)
{
    job_t job = call_job(RANKS, unopened, NULL);

    job.tune = small_bounds;
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_peer), 0);
    ck_assert_uint_gt(counts_sum(DMA_COUNT_calls_pieces), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* A copy fails in the middle: the rank gets an error, nobody waits for ever, and nothing is left behind. */
static void breaks(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    const int *skip = r->job->arg;
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLTOALL, false, BYTES);
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    odd_begin(r, r->comms[0]);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail(*skip % 2 ? "copy_async" : "event_record", (unsigned)*skip, DMA_ERR_ENGINE);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 3);
    must(r, status == DMA_ERR_ENGINE || status == DMA_OK, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

START_TEST(a_copy_fails)
{
    job_t job = call_job(RANKS, breaks, NULL);

    job.arg = &_i;
    job.tune = small_bounds;
    call_run_job(&job);
    ck_assert_int_gt(reports_count("failed"), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_pieces");

    unit_loop(suite, all_ranks_odd, 0, ODD_PLACES, 60);
    unit_loop(suite, one_rank_odd, 0, ODD_PLACES, 60);
    unit_loop(suite, shapes, 0, ODD_PLACES, 60);
    unit_loop(suite, late_engines_and_streams, 0, 4, 120);
    unit_loop(suite, stream_engine, 0, 2 * ODD_PLACES, 60);
    unit_test(suite, pieces_cost_their_copies, 30);
    unit_test(suite, communicators_share_a_block, 30);
    unit_loop(suite, calls_at_once, 0, 2, 120);
    unit_test(suite, posted_calls_use_one_block, 30);
    unit_test(suite, device_has_little_room, 30);
    unit_test(suite, nothing_is_left, 30);
    unit_test(suite, a_rank_with_host_memory, 30);
    unit_test(suite, memory_that_cannot_be_opened, 30);
    unit_loop(suite, a_copy_fails, 0, 6, 60);
    return unit_main(suite);
}
