/*
 * Device memory when something goes wrong: what cannot be opened or bound goes through the host, on all ranks and with the
 * right bytes; what ranks disagree about, and what breaks, is an error on all ranks; and nothing is left behind.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

static const call_spec_t gather = {.coll = DMA_ALLGATHER, .elements = 900, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

static void prepare(rank_t *r)
{
    dma_status_t status = dma_comm_prepare(r->comms[0]);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
}

static uint32_t epochs(const rank_t *r)
{
    return call_runs(r->comms[0]);
}

/* Waits without progress. */
static void wait_reached(rank_t *r, int value)
{
    while (atomic_load(&r->job->reached) < value) {
        sched_yield();
    }
}

static dma_status_t wait_task(dma_task_t *task)
{
    dma_status_t status;

    while ((status = dma_task_test(task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(task);
    return status;
}

static void leave(rank_t *r, call_t *c)
{
    threads_barrier(r);
    call_free(c);
}

/* ---- what one rank cannot do ---- */

/* The argument: of so many calls in the same memory the engines serve the last ones. */
typedef struct served {
    int calls, engines;
} served_t;

static void in_the_same_memory(rank_t *r)
{
    const served_t *want = r->job->arg;
    call_t *c = call_make(r, &gather);

    prepare(r);
    for (int k = 1; k <= want->calls; k++) {
        call_run(r, r->comms[0], c, (uint64_t)k);
    }
    must(r, epochs(r) == (uint32_t)want->engines, "engines have served %u calls, not %d", epochs(r), want->engines);
    leave(r, c);
}

/* The `_i`-th opening fails: that call goes through the host, and the next is as if nothing had been. */
START_TEST(one_opening_fails)
{
    served_t want = {.calls = 4, .engines = 3};
    job_t job = call_job(3, in_the_same_memory, NULL);

    job.arg = &want;
    fake_gpu_fail("ipc_open", (unsigned)_i, DMA_UNSUPPORTED);
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_open_failed), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_peer), 0);
    ck_assert_int_eq(reports_count("open"), 1);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_imports), 3 * 2); /* of two peers each; the failed one is opened again */
    ck_assert_int_eq(reports_count("device off"), 0);
}
END_TEST

START_TEST(one_bind_fails)
{
    served_t want = {.calls = 5, .engines = 5 - _i};
    job_t job = call_job(3, in_the_same_memory, NULL);

    job.arg = &want;
    engine_refuse(ENGINE_BIND, 1, (unsigned)_i);
    call_run_job(&job);
    ck_assert_int_eq(reports_count("bind"), _i);
    ck_assert_uint_eq(reasons_count(DMA_REASON_bind_refused), (unsigned long)_i);
    ck_assert_int_eq(reports_count("device off"), 0);
}
END_TEST

/* A rank whose engine never binds is asked so often, and then no more. */
START_TEST(patience_ends)
{
    served_t want = {.calls = 12, .engines = 0};
    job_t job = call_job(3, in_the_same_memory, NULL);

    job.arg = &want;
    engine_refuse(ENGINE_BIND, 2, 1000);
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_off), 0);
    ck_assert_uint_eq(engine_calls(ENGINE_BIND), 2 + DEVICE_MAX_FAILED); /* the others bind once */
    ck_assert_int_eq(reports_count("device off"), 3);
}
END_TEST

/* A rank without an engine: nobody waits for it to meet. */
START_TEST(no_engine_on_one_rank)
{
    served_t want = {.calls = 5, .engines = 0};
    job_t job = call_job(3, in_the_same_memory, NULL);

    job.arg = &want;
    engine_refuse(ENGINE_OPEN, 1, 1000);
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_engine_refused), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_no_engine), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_peer), 0);
    ck_assert_uint_eq(engine_calls(ENGINE_OPEN), 3);
    ck_assert_str_eq(reports_first("device"),
                     "no engine serves device 1 (refused to open): collectives in its memory go "
                     "through the host");
}
END_TEST

static void no_engine(int rank, dma_params_t *params)
{
    snprintf(params->engine, sizeof(params->engine), "%s", rank == 0 ? "none" : "threads");
}

START_TEST(engine_switched_off)
{
    served_t want = {.calls = 3, .engines = 0};
    job_t job = call_job(2, in_the_same_memory, NULL);

    job.arg = &want;
    job.tune = no_engine;
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_engine_none), 0);
    ck_assert_uint_eq(engine_calls(ENGINE_OPEN), 1);
}
END_TEST

/* Opening fails for every second piece of new memory, on different ranks, while others are evicted. */
static void many_failures(rank_t *r)
{
    enum { SETS = DEVICE_SLOTS + 3 };
    call_t *sets[SETS];

    prepare(r);
    for (int i = 0; i < SETS; i++) {
        sets[i] = call_make(r, &gather);
    }
    for (uint64_t tag = 1; tag <= 150; tag++) {
        if (threads_random(r, 12) == 0) {
            fake_gpu_fail("ipc_open", threads_random(r, 4), DMA_UNSUPPORTED);
        }
        call_run(r, r->comms[0], sets[threads_random(r, SETS)], tag);
    }
    threads_barrier(r);
    for (int i = 0; i < SETS; i++) {
        call_free(sets[i]);
    }
}

START_TEST(openings_fail_in_between)
{
    job_t job = call_job(3, many_failures, NULL);

    call_run_job(&job);
    ck_assert_int_gt(reports_count("open"), 0);
}
END_TEST

/* ---- records that are wrong ---- */

/* Rank 1 says that its buffer is where it is not: in the first call, when all look, or later. */
static void wrong_place(rank_t *r)
{
    const bool *first = r->job->arg;
    call_t *c = call_make(r, &gather);
    const dma_device_record_t *record;
    dma_device_info_t *info;
    uint64_t size;
    dma_task_t *task = NULL;
    dma_status_t status;

    prepare(r);
    for (uint64_t tag = 1; !*first && tag <= 2; tag++) {
        call_run(r, r->comms[0], c, tag);
    }
    if (r->rank == 1) {
        call_fill(r, c, 9);
        must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
        info = dma_device_info(r->comms[0], 1, r->comms[0]->seq);
        record = dma_window_record(&r->comms[0]->window, 1, r->comms[0]->seq);
        size = *first ? record->export.size : r->comms[0]->device->peers[1].size[0];
        info->flags &= ~(uint32_t)DMA_DEVICE_INFO_REPEAT; /* else nobody looks */
        info->offset = (int64_t)size - 100 - (r->n - 1) * 900;
        /* too near to the end for the last rank */
        atomic_store(&r->job->reached, 1);
        status = wait_task(task);
    } else {
        wait_reached(r, 1);
        status = call_try(r, r->comms[0], c, 9);
    }
    if (*first) {
        must(r, status == DMA_OK && epochs(r) == 0, "%s", dma_status_name(status));
        call_verify(r, c);
    } else {
        must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    }
    leave(r, c);
}

START_TEST(record_outside_of_the_allocation)
{
    for (int first = 0; first < 2; first++) {
        bool is_first = first;
        job_t job = call_job(3, wrong_place, NULL);

        job.arg = &is_first;
        call_run_job(&job);
        ck_assert_uint_gt(reasons_count(DMA_REASON_open_failed), 0);
    }
}
END_TEST

/* ---- ranks that disagree ---- */

typedef struct wrong {
    dma_coll_t coll, other;
    size_t elements;
    unsigned sizes; /* of the blocks of rank 1: those of the others are 5 */
    dma_status_t status;
} wrong_t;

/* The end of a start. */
typedef struct result {
    dma_status_t status;
    _Atomic bool ended;
} result_t;

static void note_result(void *arg, dma_status_t status)
{
    result_t *result = arg;

    result->status = status;
    atomic_store(&result->ended, true);
}

static void one_is_wrong(rank_t *r)
{
    const wrong_t *w = r->job->arg;
    call_spec_t spec = gather;
    dma_status_t status;
    call_t *c;

    spec.coll = DMA_ALLTOALL;
    prepare(r);
    c = call_make(r, &spec);
    call_run(r, r->comms[0], c, 1);
    leave(r, c);
    spec.coll = r->rank == 1 ? w->other : w->coll;
    spec.elements = r->rank == 1 ? w->elements : 900;
    spec.sizes = r->rank == 1 ? w->sizes : 5;
    c = call_make(r, &spec);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == w->status, "%s, not %s", dma_status_name(status), dma_status_name(w->status));
    must(r, call_try(r, r->comms[0], c, 3) == w->status, "the next call");
    leave(r, c);
}

/* Where a block would end behind the memory for it, the call goes through the host, which notices it too: so there are many. */
static const wrong_t wrongs[] = {
    {DMA_ALLGATHER, DMA_ALLGATHER, 901, 5, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALL, DMA_ALLTOALL, 899, 5, DMA_ERR_TRUNCATE},
    {DMA_ALLGATHERV, DMA_ALLGATHERV, 900, 77, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 77, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 78, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 79, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 80, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 81, DMA_ERR_TRUNCATE},
    {DMA_ALLTOALLV, DMA_ALLTOALLV, 900, 82, DMA_ERR_TRUNCATE},
    {DMA_ALLGATHER, DMA_ALLTOALL, 900, 5, DMA_ERR_MISMATCH},
    {DMA_ALLTOALL, DMA_ALLGATHERV, 900, 5, DMA_ERR_MISMATCH},
};

START_TEST(ranks_disagree)
{
    job_t job = call_job(3, one_is_wrong, NULL);

    job.arg = &wrongs[_i];
    call_run_job(&job);
}
END_TEST

/* Their persistent calls differ. What all prepare has no descriptors, so they must not prepare it. */
static void one_prepares_another(rank_t *r)
{
    const wrong_t *w = r->job->arg;
    call_spec_t spec = gather;
    dma_channel_t *channel;
    result_t result = {.status = DMA_AGAIN};
    call_t *c;

    spec.coll = r->rank == 1 ? w->other : w->coll;
    spec.elements = r->rank == 1 ? w->elements : 900;
    spec.sizes = r->rank == 1 ? w->sizes : 5;
    prepare(r);
    c = call_make(r, &spec);
    must(r, dma_channel_create(r->comms[0], &c->call, note_result, &result, &channel) == DMA_OK, "channel");
    call_fill(r, c, 1);
    must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
    while (!atomic_load(&result.ended)) {
        threads_host.progress();
    }
    must(r, result.status == w->status, "%s, not %s", dma_status_name(result.status), dma_status_name(w->status));
    dma_channel_destroy(channel);
    leave(r, c);
}

START_TEST(ranks_prepare_different_calls)
{
    job_t job = call_job(3, one_prepares_another, NULL);

    job.arg = &wrongs[_i];
    call_run_job(&job);
}
END_TEST

/* ---- ranks that fail ---- */

static void fail_here(dma_comm_t *comm)
{
    dma_comm_lock(comm);
    dma_comm_fail(comm, DMA_ERR_NOMEM, "a test");
    dma_comm_unlock(comm);
}

/* Rank 1 fails before it has entered, or when it has but the others wait for what it says of their memory. */
static void fails_in_an_agreement(rank_t *r)
{
    const bool *entered = r->job->arg;
    call_t *c = call_make(r, &gather);
    dma_task_t *task = NULL;
    dma_status_t status = DMA_ERR_NOMEM;

    prepare(r);
    if (r->rank == 1) {
        if (*entered) {
            call_fill(r, c, 1);
            must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
            atomic_store(&r->job->reached, 1);
            wait_reached(r, 3);
        }
        fail_here(r->comms[0]);
        status = task ? wait_task(task) : status;
    } else {
        wait_reached(r, *entered);
        call_fill(r, c, 1);
        must(r, task_post(r->comms[0], &c->call, NULL, NULL, &task) == DMA_OK, "post");
        while (*entered && r->comms[0]->head->device->phase != DEVICE_AGREE) {
            threads_host.progress();
        }
        atomic_fetch_add(&r->job->reached, 1);
        status = wait_task(task);
    }
    must(r, status == DMA_ERR_NOMEM, "%s", dma_status_name(status));
    leave(r, c);
}

START_TEST(rank_fails_in_an_agreement)
{
    bool entered = _i;
    job_t job = call_job(3, fails_in_an_agreement, NULL);

    job.params.progress_thread = 0; /* it would vote for rank 1 */

    job.arg = &entered;
    call_run_job(&job);
}
END_TEST

static void note(void *arg, dma_status_t status)
{
    atomic_store((_Atomic int *)arg, (int)status);
}

/* A persistent call that rank 1 never starts, because its communicator fails: others have started it, armed or not. */
static void fails_before_its_start(rank_t *r)
{
    call_t *c = call_make(r, &gather);
    dma_channel_t *ch;
    _Atomic int ended = DMA_AGAIN;

    must(r, dma_channel_create(r->comms[0], &c->call, note, &ended, &ch) == DMA_OK, "create");
    call_fill(r, c, 1);
    if (r->rank == 1) {
        wait_reached(r, 2);
        fail_here(r->comms[0]);
    } else {
        must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
        dma_channel_prepare_next(ch);
        atomic_fetch_add(&r->job->reached, 1);
        while (atomic_load(&ended) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, atomic_load(&ended) == DMA_ERR_NOMEM, "%s", dma_status_name((dma_status_t)ended));
    }
    dma_channel_destroy(ch);
    leave(r, c);
}

START_TEST(rank_fails_before_a_start)
{
    job_t job = call_job(3, fails_before_its_start, NULL);

    job.params.prelaunch = _i;
    call_run_job(&job);
    ck_assert_uint_eq(engine_armed(), _i ? 3 + 2 : 0); /* two have started, and have armed the next */
}
END_TEST

/* ---- engines that fail ---- */

static void engine_fails(rank_t *r)
{
    const dma_status_t *want = r->job->arg;
    call_t *c = call_make(r, &gather);
    dma_status_t status;

    prepare(r);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        if (*want == DMA_ERR_ENGINE) {
            engine_break(1);
        } else {
            engine_refuse(ENGINE_START, 1, 1);
        }
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_POISONED, "not poisoned");
    leave(r, c);
}

START_TEST(engine_breaks)
{
    dma_status_t how = _i ? DMA_OK : DMA_ERR_ENGINE;
    job_t job = call_job(3, engine_fails, NULL);

    job.arg = &how;
    call_run_job(&job);
    ck_assert_int_ge(reports_count("failed"), 3);
}
END_TEST

/* A copy of the runtime fails while memory is staged, because one rank has host memory. Whose it was is chance: it is an
 * error for all. */
static void copy_fails(rank_t *r)
{
    call_spec_t spec = gather;
    dma_status_t status;
    call_t *c;

    spec.send = spec.recv = r->rank == 2 ? PLACE_HOST : PLACE_DEVICE;
    c = call_make(r, &spec);
    prepare(r);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail("copy_async", 0, DMA_ERR_ENGINE);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    leave(r, c);
}

START_TEST(staging_fails)
{
    job_t job = call_job(3, copy_fails, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_errors");

    unit_loop(s, one_opening_fails, 0, 6, 10);
    unit_loop(s, one_bind_fails, 0, 3, 10);
    unit_test(s, patience_ends, 10);
    unit_test(s, no_engine_on_one_rank, 10);
    unit_test(s, engine_switched_off, 10);
    unit_test(s, openings_fail_in_between, 20);
    unit_test(s, record_outside_of_the_allocation, 20);
    unit_loop(s, ranks_disagree, 0, (int)(sizeof(wrongs) / sizeof(wrongs[0])), 10);
    unit_loop(s, ranks_prepare_different_calls, 0, (int)(sizeof(wrongs) / sizeof(wrongs[0])), 10);
    unit_loop(s, rank_fails_in_an_agreement, 0, 2, 10);
    unit_loop(s, rank_fails_before_a_start, 0, 2, 10);
    unit_loop(s, engine_breaks, 0, 2, 10);
    unit_test(s, staging_fails, 10);
    return unit_main(s);
}
