/*
 * The core, with ranks as threads, when something goes wrong: ranks that call differently, come late or not at all;
 * memory that cannot be allocated or read; messages that fail. There must be no hang and no wrong data, and all ranks
 * must end alike.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

static dma_status_t gather(rank_t *r, dma_comm_t *comm, uint64_t tag, size_t bytes)
{
    uint8_t *send = malloc(bytes + 1), *recv = malloc((size_t)r->n * bytes + 1);
    dma_side_t from = data_buffer(send, bytes), to = data_buffer(recv, bytes);
    dma_status_t status;

    data_fill(send, tag, r->rank, bytes);
    recv[(size_t)r->n * bytes] = 0xee;
    status = data_allgather(comm, &from, &to);
    must(r, recv[(size_t)r->n * bytes] == 0xee, "written beyond the end");
    if (status == DMA_OK) {
        data_check(r, recv, tag, bytes);
        free(send);
    } else {
        threads_keep(r, send); /* memory of a failed call: peers may still look at it, and then fail too */
    }
    free(recv);
    return status;
}

static void force(job_t *job, const char *variant)
{
    snprintf(job->params.variant, sizeof(job->params.variant), "%s", variant);
}

static char session[64];

static const char *session_begin(void)
{
    snprintf(session, sizeof(session), "/tmp/dma-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(session));
    return session;
}

/* No file is left in the session directory. */
static void session_end(void)
{
    ck_assert_int_eq(rmdir(session), 0);
}

/* If a set-up ends before its messages, the messages keep their memory, and nobody tests them again. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_bootstrap_begin\n"
           "leak:thread_isend\n"
           "leak:thread_irecv\n";
}

/* ---- ranks that call differently ---- */

static void unequal(rank_t *r)
{
    const size_t *sizes = r->job->arg;
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    must(r, gather(r, r->comms[0], 1, 50) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    status = gather(r, r->comms[0], 2, sizes[r->rank == r->n - 1]);
    /* a rank may have received its data before the error was noticed; then the next call fails */
    if (status == DMA_OK) {
        status = gather(r, r->comms[0], 3, 50);
    }
    must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_POISONED, "not poisoned");
    must(r, dma_comm_reason(r->comms[0])[0], "no reason");
    must(r, gather(r, r->comms[0], 4, 50) == DMA_ERR_TRUNCATE, "a call on a poisoned communicator");
    must(r, dma_comm_prepare(r->comms[0]) == DMA_ERR_TRUNCATE, "prepare of a poisoned communicator");
}

START_TEST(unequal_bytes)
{
    static const size_t sizes[][2] = {{8, 9}, {8, 8000}, {20000, 8}, {20000, 30000}};

    for (int n = 2; n < 6; n++) {
        job_t job = threads_job(n, unequal);
        job.arg = sizes[_i % 4];
        force(&job, _i < 4 ? "auto" : _i < 8 ? "host_pipe" : "host_reach");
        threads_run(&job);
    }
}
END_TEST

static void unequal_posted(rank_t *r)
{
    enum { N = 20 };
    uint8_t send[64] = {0}, recv[N][5 * 64];
    dma_task_t *tasks[N];
    dma_status_t status;
    int posted = 0, failed = 0;

    for (; posted < N; posted++) {
        size_t bytes = posted == 10 && r->rank == 0 ? 7 : 8;
        dma_side_t from = data_buffer(send, bytes), to = data_buffer(recv[posted], bytes);
        status = data_iallgather(r->comms[0], &from, &to, &tasks[posted]);
        if (status != DMA_OK) {
            must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
            break; /* poisoned in between */
        }
    }
    for (int i = 0; i < posted; i++) {
        while ((status = dma_task_test(tasks[i])) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, status == DMA_OK || status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
        must(r, status < 0 || i != 10, "the call that does not match has succeeded");
        failed += status < 0;
        task_free(tasks[i]);
    }
    must(r, failed || posted < N, "no error");
    must(r, dma_proc_active(r->proc) == 0, "busy after the error");
}

START_TEST(unequal_bytes_posted)
{
    for (int n = 2; n < 6; n++) {
        job_t job = threads_job(n, unequal_posted);
        threads_run(&job);
    }
}
END_TEST

/* The two sides of one rank do not match. That rank reports it, and the others do not wait for it. */
static void two_sides(rank_t *r)
{
    uint8_t send[64] = {0}, recv[256];
    dma_side_t from = data_buffer(send, r->rank == 1 ? 9 : 8), to = data_buffer(recv, 8);

    threads_prepare(r, r->comms[0]);
    must(r, data_allgather(r->comms[0], &from, &to) == DMA_ERR_TRUNCATE, "%s", dma_comm_reason(r->comms[0]));
}

/* The same before the set-up, of a call whose memory holds old bytes: probes and events read none of them. */
static void two_sides_posted(rank_t *r)
{
    uint8_t send[64] = {0}, recv[256];
    dma_call_t call = {
        .coll = DMA_ALLGATHER, .send = data_buffer(send, r->rank == 1 ? 9 : 8), .recv = data_buffer(recv, 8)};
    dma_status_t outcome;
    dma_task_t task;

    memset((void *)&task, 0x5a, sizeof(task));
    must(r, dma_comm_post_task(r->comms[0], &call, NULL, NULL, NULL, &task, &outcome) == DMA_OK, "not posted");
    must(r, r->rank != 1 || (task.bytes == 0 && !task.in_place), "%llu bytes", (unsigned long long)task.bytes);
    while (outcome == DMA_AGAIN && dma_task_test(&task) == DMA_AGAIN) {
        threads_host.progress();
    }
    must(r, dma_task_test(&task) == DMA_ERR_TRUNCATE, "%s", dma_comm_reason(r->comms[0]));
}

START_TEST(send_and_receive_side_disagree_posted)
{
    job_t job = threads_job(3, two_sides_posted);

    threads_run(&job);
}
END_TEST

START_TEST(send_and_receive_side_disagree)
{
    job_t job = threads_job(3, two_sides);

    threads_run(&job);
}
END_TEST

/* ---- late is not dead ---- */

static void late(rank_t *r)
{
    int turns = r->job->params.warn > 0 ? 12000 : 30;

    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 0; tag < 2; tag++) {
        /* until one of the two waiting ranks has reported it, if it must, and the other rank has had the time to do so */
        for (int i = 0; r->rank == (int)tag && reports_count("late") <= (int)tag && i < turns; i++) {
            usleep(10000);
        }
        usleep(r->rank == (int)tag ? 300000 : 0);
        must(r, gather(r, r->comms[0], tag, tag ? 20000 : 8) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    }
}

START_TEST(a_late_rank)
{
    job_t job = threads_job(3, late);

    job.params.warn = 1.5; /* seconds in which no rank of a busy machine stands still */
    threads_run(&job);
    /* one of the two waiting ranks reports once per call, and names the rank it waits for */
    ck_assert_int_eq(reports_count("late"), 2);
    ck_assert_ptr_nonnull(strstr(reports_first("late"), "call 1"));
    ck_assert_ptr_nonnull(strstr(reports_first("late"), "for rank 0"));
}
END_TEST

START_TEST(a_late_rank_without_warning)
{
    job_t job = threads_job(3, late);

    job.params.warn = 0;
    threads_run(&job);
    ck_assert_int_eq(reports_count("late"), 0);
}
END_TEST

static void never(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    r->proc->params.entry_timeout = 0.1; /* not earlier: a set-up may be late as well */
    threads_barrier(r);
    if (r->rank) {
        must(r, gather(r, r->comms[0], 1, 8) == DMA_ERR_TIMEOUT, "%s", dma_comm_reason(r->comms[0]));
        must(r, dma_comm_reason(r->comms[0])[0], "no reason");
        atomic_fetch_add(&r->job->reached, 1);
    }
    while (atomic_load(&r->job->reached) < r->n - 1) {
        usleep(1000);
    }
    /* the late rank finds the others' data, or the failure; then the failure */
    gather(r, r->comms[0], 1, 8);
    must(r, gather(r, r->comms[0], 2, 8) == DMA_ERR_TIMEOUT, "the others have given up");
}

START_TEST(entry_timeout)
{
    job_t job = threads_job(3, never);

    threads_run(&job);
    ck_assert_ptr_nonnull(strstr(reports_first("failed"), "rank 0"));
}
END_TEST

/* ---- memory that cannot be allocated ---- */

/* Messages carry out non-blocking calls. */
static void aside_posted(rank_t *r)
{
    enum { N = 5 };
    uint8_t send[N][100], recv[N][8 * 100];
    dma_task_t *tasks[N];
    dma_status_t status;

    for (int i = 0; i < N; i++) {
        dma_side_t from = data_buffer(send[i], 100), to = data_buffer(recv[i], 100);

        data_fill(send[i], (uint64_t)i, r->rank, 100);
        status = data_iallgather(r->comms[0], &from, &to, &tasks[i]);
        must(r, status == DMA_OK, "%s", dma_status_name(status));
    }
    for (int i = 0; i < N; i++) {
        while ((status = dma_task_test(tasks[i])) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, status == DMA_OK, "%s", dma_status_name(status));
        task_free(tasks[i]);
        data_check(r, recv[i], (uint64_t)i, 100);
    }
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_ASIDE, "state %d", dma_comm_state(r->comms[0]));
    must(r, dma_comm_reason(r->comms[0])[0], "no reason");
}

static void aside(rank_t *r)
{

    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "state %d", dma_comm_state(r->comms[0]));
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_ASIDE, "state %d", dma_comm_state(r->comms[0]));
    must(r, dma_comm_reason(r->comms[0])[0], "no reason");
    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "the second time");
    aside_posted(r);
    must(r, dma_proc_active(r->proc) == 0, "busy");
}

static void tiny_arena(int rank, dma_params_t *params)
{
    if (rank == 1) {
        params->arena_bytes = 4096;
    }
}

START_TEST(arena_too_small)
{
    for (int n = 2; n < 5; n++) {
        job_t job = threads_job(n, aside);
        job.tune = tiny_arena;
        job.session_dir = _i ? session_begin() : NULL;
        threads_run(&job);
        if (_i) {
            session_end();
        }
        /* one attempt: a file would count towards the same limit */
        ck_assert_int_eq(reports_count("arena"), 0);
        ck_assert_uint_eq(reasons_count(DMA_REASON_arena_limit), (unsigned)n);
    }
}
END_TEST

/* Messages also carry out the calls that were posted before the ranks knew, on all ranks: no other way is left for them. */
START_TEST(arena_too_small_posted)
{
    job_t job = threads_job(3, aside_posted);

    job.tune = tiny_arena;
    job.delay_us = 3000;
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arena_limit), 0);
}
END_TEST

static void file_arena(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 0; tag < 30; tag++) {
        must(r, gather(r, r->comms[0], tag, tag % 3 ? 100 : 20000) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    }
}

START_TEST(no_memfd)
{
    job_t job = threads_job(3, file_arena);

    fail_memfd = true;
    job.session_dir = session_begin();
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arena_system), 0);
    session_end();
    fail_memfd = false;
    ck_assert_int_eq(reports_count("arena-file"), 0); /* creating files would work */
}
END_TEST

static void file_arena_posted(rank_t *r)
{
    enum { N = 12 };
    static const size_t sizes[] = {8, 5000, 20000};
    uint8_t *send[N], *recv[N];
    dma_task_t *tasks[N];
    dma_status_t status;

    for (uint64_t i = 0; i < N; i++) {
        size_t bytes = sizes[i % 3];
        send[i] = malloc(bytes);
        recv[i] = malloc((size_t)r->n * bytes);
        dma_side_t from = data_buffer(send[i], bytes), to = data_buffer(recv[i], bytes);
        data_fill(send[i], i, r->rank, bytes);
        status = data_iallgather(r->comms[0], &from, &to, &tasks[i]);
        must(r, status == DMA_OK, "%s", dma_status_name(status));
        if (i < 3 * (uint64_t)r->rank) {
            usleep(1000); /* the ranks have posted different numbers of calls when the first attempt ends */
            threads_host.progress();
        }
    }
    for (uint64_t i = 0; i < N; i++) {
        while ((status = dma_task_test(tasks[i])) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
        data_check(r, recv[i], i, sizes[i % 3]);
        task_free(tasks[i]);
        free(send[i]);
        free(recv[i]);
    }
}

/* The second attempt of the set-up begins when calls are already queued. */
START_TEST(no_memfd_posted)
{
    for (int n = 2; n < 5; n++) {
        job_t job = threads_job(n, file_arena_posted);
        fail_memfd = true;
        job.session_dir = session_begin();
        job.delay_us = 3000;
        threads_run(&job);
        session_end();
        fail_memfd = false;
    }
}
END_TEST

/* ---- memory that cannot be read ---- */

static void refused(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 0; tag < 30; tag++) {
        size_t bytes = r->job->arg ? *(const size_t *)r->job->arg : 20000;
        must(r, gather(r, r->comms[0], tag, bytes) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    }
}

/* Reads fail from number n on, on one rank after the other. Blocks of the sizes that are read come through shared
 * memory instead. */
START_TEST(cross_memory_refused)
{
    static const size_t sizes[] = {20000, 8193, 8192, 1}; /* up to 8 KiB no block is read */

    for (int n = 2; n < 5; n++) {
        for (int good = 0; good < 12; good += 3) {
            job_t job = threads_job(n, refused);
            force(&job, "host_reach");
            job.arg = &sizes[_i];
            fail_cross_after = n * (n - 1) + good; /* the probes of the set-up succeed */
            threads_run(&job);
            ck_assert(sizes[_i] > 8192 ? reports_count("refused") >= 1 : !reports_count("refused"));
            fail_cross_after = -1;
        }
    }
}
END_TEST

static void refused_posted(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    file_arena_posted(r);
}

START_TEST(cross_memory_refused_posted)
{
    for (int good = 0; good < 12; good += 3) {
        job_t job = threads_job(3, refused_posted);
        force(&job, "host_reach");
        fail_cross_after = 6 + good;
        threads_run(&job);
        fail_cross_after = -1;
    }
}
END_TEST

START_TEST(cross_memory_not_proven)
{
    job_t job = threads_job(3, refused);

    force(&job, "host_reach");
    fail_cross_after = 2; /* some of the probes fail: no rank reads, and no rank has to change its way later */
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_cross_refused), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_variant_unfit), 0);
    fail_cross_after = -1;
    ck_assert_int_eq(reports_count("refused"), 0);
    ck_assert_int_ge(reports_count("forced"), 1);
}
END_TEST

/* ---- messages that fail ---- */

static void no_messages(rank_t *r)
{
    dma_status_t status;

    group_fail_sends(r->job->groups[0], r->rank);
    status = dma_comm_prepare(r->comms[0]);
    must(r, status == DMA_ERR_NET, "%s", dma_status_name(status));
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_POISONED, "not poisoned");
    must(r, gather(r, r->comms[0], 1, 8) == DMA_ERR_NET, "a call afterwards");
    must(r, dma_proc_active(r->proc) == 0, "busy");
}

START_TEST(messages_fail)
{
    job_t job = threads_job(3, no_messages);

    threads_run(&job);
}
END_TEST

/* A communicator that is freed with outstanding calls, or during its set-up, accesses nothing afterwards. */
static void abandoned(rank_t *r)
{
    uint8_t send[8] = {0}, recv[64];
    dma_side_t from = data_buffer(send, 8), to = data_buffer(recv, 8);
    dma_task_t *task;

    if (r->rank == 0) {
        must(r, data_iallgather(r->comms[0], &from, &to, &task) == DMA_OK, "posted");
        for (int i = 0; i < 100; i++) {
            threads_host.progress();
        }
        dma_comm_destroy(r->comms[0]);
        r->comms[0] = NULL;
        must(r, dma_proc_active(r->proc) == 0, "busy");
        task_free(task);
    }
    threads_barrier(r);
}

START_TEST(freed_during_set_up)
{
    job_t job = threads_job(2, abandoned);

    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("errors");

    unit_loop(suite, unequal_bytes, 0, 12, 10);
    unit_test(suite, unequal_bytes_posted, 10);
    unit_test(suite, send_and_receive_side_disagree, 10);
    unit_test(suite, send_and_receive_side_disagree_posted, 10);
    unit_test(suite, a_late_rank, 30);
    unit_test(suite, a_late_rank_without_warning, 10);
    unit_test(suite, entry_timeout, 10);
    unit_loop(suite, arena_too_small, 0, 2, 10);
    unit_test(suite, arena_too_small_posted, 10);
    unit_test(suite, no_memfd, 10);
    unit_test(suite, no_memfd_posted, 10);
    unit_loop(suite, cross_memory_refused, 0, 4, 10);
    unit_test(suite, cross_memory_refused_posted, 10);
    unit_test(suite, cross_memory_not_proven, 10);
    unit_test(suite, messages_fail, 10);
    unit_test(suite, freed_during_set_up, 10);
    return unit_main(suite);
}
