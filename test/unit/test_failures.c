/*
 * Failures that were once handled wrongly, one test per bug. Ranks are threads. Most of these bugs made a rank wait
 * for ever; then the limit of the test fails. test_failures_threads.c has the tests with several threads per rank.
 */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

#define LIMIT 20 /* seconds; a test takes less than one */

/* Memory that messages may still write after a failure is left to them, and nobody tests these messages again. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_task_resolve\n"
           "leak:dma_messages_advance\n"
           "leak:thread_isend\n"
           "leak:thread_irecv\n";
}

static void force(job_t *job, const char *variant)
{
    snprintf(job->params.variant, sizeof(job->params.variant), "%s", variant);
}

static dma_status_t make_channel(rank_t *r, data_gather_t *g, dma_channel_t **channel)
{
    return dma_channel_create(r->comms[0], data_gather(g), NULL, NULL, channel);
}

static dma_status_t finish(dma_task_t *task)
{
    dma_status_t status;

    while ((status = dma_task_test(task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    task_free(task);
    return status;
}

/* ---- failures that not all ranks noticed ---- */

static void unplaced(rank_t *r)
{
    uint8_t send[16] = {0}, recv[3 * 16];
    dma_side_t from = data_buffer(send, r->rank == 0 ? 8 : 16), to = data_buffer(recv, 16);
    dma_task_t *task;
    dma_status_t status = data_iallgather(r->comms[0], &from, &to, &task);

    must(r, status == DMA_OK, "%s", dma_status_name(status));
    if (r->rank == 0) {
        dma_task_t *other;
        must(r, data_iallgather(r->comms[0], &from, &to, &other) == DMA_ERR_TRUNCATE, "a call after the failed one");
    }
    status = finish(task);
    must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_POISONED, "it works");
    must(r, dma_comm_prepare(r->comms[0]) == DMA_ERR_TRUNCATE, "%s", dma_comm_reason(r->comms[0]));
}

/* A rank without memory for its first call left the set-up, and the others waited for it for ever. Or it had
 * nothing to wait for, and freed the communicator. */
START_TEST(call_unplaced_before_the_set_up)
{
    for (int n = 2; n < 4; n++) {
        job_t job = threads_job(n, unplaced);
        threads_run(&job);
    }
}
END_TEST

/* An all-to-all-v in which rank 0 expects fewer bytes from rank 1 than arrive. Only rank 0 notices before its call
 * has completed. */
static dma_status_t one_disagrees(rank_t *r)
{
    static const int eight[] = {8, 8, 8}, four[] = {8, 4, 8}, displs[] = {0, 8, 16};
    uint8_t send[3 * 8] = {0}, recv[3 * 8];
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(send, 0), .recv = data_buffer(recv, 0)};
    dma_task_t *task = NULL;
    dma_status_t status = DMA_OK;

    call.send.counts = eight;
    call.recv.counts = r->rank == 0 ? four : eight;
    call.send.displs = call.recv.displs = displs;
    if (r->rank) {
        status = task_post(r->comms[0], &call, NULL, NULL, &task);
        must(r, status == DMA_OK, "%s", dma_status_name(status));
    }
    threads_barrier(r);
    if (r->rank == 0) {
        status = dma_comm_run(r->comms[0], &call);
    }
    threads_barrier(r);
    return task ? finish(task) : status;
}

static void init_after_failure(rank_t *r)
{
    data_gather_t gather;
    dma_channel_t *channel;
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    status = one_disagrees(r);
    must(r, status == (r->rank ? DMA_OK : DMA_ERR_TRUNCATE), "%s", dma_status_name(status));
    status = make_channel(r, &gather, &channel);
    must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
}

/* A rank that had not noticed the failure waited, in the set-up of the channel, for ranks that had noticed it and
 * did not come. */
START_TEST(init_after_a_failure_that_some_have_seen)
{
    job_t job = threads_job(3, init_after_failure);

    force(&job, "host_pair");
    threads_run(&job);
}
END_TEST

static void note_status(void *arg, dma_status_t status)
{
    *(dma_status_t *)arg = status;
}

/* The result of a start. */
static dma_status_t start_and_wait(dma_channel_t *channel, dma_status_t *outcome)
{
    dma_status_t status;

    *outcome = DMA_AGAIN;
    status = dma_channel_start(channel, outcome);
    while (status == DMA_OK && *outcome == DMA_AGAIN) {
        threads_host.progress();
    }
    return status == DMA_OK ? *outcome : status;
}

/* A start of more bytes on rank 0 than the channel has memory for, because the other ranks prepared fewer. */
static void larger_start(rank_t *r)
{
    uint8_t send[3 * 100] = {0}, recv[3 * 100];
    size_t bytes = r->rank == 0 ? 100 : 16;
    dma_call_t call = {.coll = DMA_ALLTOALL, .send = data_buffer(send, bytes), .recv = data_buffer(recv, bytes)};
    dma_status_t status, outcome;
    dma_channel_t *channel = NULL;

    threads_prepare(r, r->comms[0]);
    status = dma_channel_create(r->comms[0], &call, note_status, &outcome, &channel);
    must(r, status == DMA_OK, "%s", dma_status_name(status));
    threads_barrier(r);
    if (r->rank == 0) {
        status = start_and_wait(channel, &outcome);
        must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
        must(r, strstr(dma_comm_reason(*(dma_comm_t **)(void *)channel), "a rank of"), "it blames one rank");
    }
    threads_barrier(r);
    if (r->rank) {
        status = start_and_wait(channel, &outcome);
        must(r, status == DMA_ERR_TRUNCATE, "%s", dma_status_name(status));
    }
    threads_barrier(r);
    dma_channel_destroy(channel);
}

/* Rank 0 failed with the status "unsupported", for which ranks in the set-up of the channel began to agree on messages. */
START_TEST(start_larger_than_its_channel)
{
    job_t job = threads_job(3, larger_start);

    threads_run(&job);
}
END_TEST

/* No rank may take this failure for an answer. */
static void fail_with_an_answer(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    threads_barrier(r);
    if (r->rank == 0) {
        dma_comm_lock(r->comms[0]);
        dma_comm_fail(r->comms[0], DMA_UNSUPPORTED, "as if a caller had passed an answer on");
        dma_comm_unlock(r->comms[0]);
    }
    threads_barrier(r);
    if (r->rank) {
        data_gather_t gather;
        dma_status_t status = dma_comm_run(r->comms[0], data_gather(&gather));

        must(r, status == DMA_ERR_ARG, "%s", dma_status_name(status));
    }
    must(r, dma_comm_prepare(r->comms[0]) == DMA_ERR_ARG, "%s", dma_comm_reason(r->comms[0]));
}

START_TEST(an_answer_is_no_failure)
{
    job_t job = threads_job(2, fail_with_an_answer);

    threads_run(&job);
}
END_TEST

/* The channel of rank 0 fails, as if its engine had lost the completion of a start that the others have completed. */
static void channel_fails(rank_t *r)
{
    data_gather_t gather;
    dma_channel_t *channel;
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    status = make_channel(r, &gather, &channel);
    must(r, status == DMA_OK, "%s", dma_status_name(status));
    threads_barrier(r);
    if (r->rank == 0) {
        dma_comm_t *inside = *(dma_comm_t **)(void *)channel; /* its first member */

        dma_comm_lock(inside);
        dma_comm_fail(inside, DMA_ERR_ENGINE, "as if its engine had");
        dma_comm_unlock(inside);
    } else {
        status = dma_comm_run(r->comms[0], &gather.call);
        must(r, status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    }
    threads_barrier(r);
    dma_channel_destroy(channel);
}

/* The others wait in the next call on the communicator, which rank 0 does not enter. */
START_TEST(communicator_of_a_channel_that_fails)
{
    job_t job = threads_job(3, channel_fails);

    threads_run(&job);
}
END_TEST

/* ---- messages that fail ---- */

static void send_fails(rank_t *r)
{
    uint8_t send[64] = {0}, recv[2 * 128];
    vector_type_t type = {.piece = 4, .stride = 8};
    dma_side_t from = data_buffer(send, 64);
    dma_side_t to = {.addr = recv, .size = 4, .extent = 8, .count = 16, .type = &type};
    dma_task_t *task;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "%s", dma_comm_reason(r->comms[0]));
    threads_barrier(r);
    if (r->rank == 0) {
        group_fail_sends(r->job->groups[0], 0);
        must(r, data_iallgather(r->comms[0], &from, &to, &task) == DMA_OK, "posted");
        must(r, finish(task) == DMA_ERR_NET, "%s", dma_comm_reason(r->comms[0]));
    }
    threads_barrier(r);
    if (r->rank == 1) {
        to = data_buffer(recv, 64);
        must(r, data_iallgather(r->comms[0], &from, &to, &task) == DMA_OK, "posted");
        for (int i = 0; i < 100; i++) {
            threads_host.progress(); /* the message goes where rank 0's receive wants it */
        }
        must(r, dma_task_test(task) == DMA_AGAIN, "rank 0 has sent nothing");
        dma_task_drop(task);
        dma_comm_destroy(r->comms[0]);
        r->comms[0] = NULL;
        task_free(task);
    }
}

/* The staging memory of a failed call was freed while a message could still arrive in it. A sanitizer notices it. */
START_TEST(staging_of_messages_under_way)
{
    job_t job = threads_job(2, send_fails);

    job.delay_us = 0;
    job.params.arena_bytes = 0; /* messages carry out calls */
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arena_limit), 0);
}
END_TEST

/* ---- the rank that a wait is for ---- */

/* The rank comes into the set-up when another one has reported that, and those that may be about to have done so, too. */
static void comes_late(rank_t *r)
{
    const int *late = r->job->arg;

    while (r->rank == *late && reports_count("late") == 0) {
        usleep(10000);
    }
    if (r->rank == *late) {
        usleep(500000);
    }
    threads_prepare(r, r->comms[0]);
}

/* One line, of rank 0, or lines of those who wait for a message of rank 0, if that is late. */
static bool has_one_line(int late)
{
    int count = reports_count("late");

    return late ? count == 1 && reports_with("late", "rank 0 has waited") == 1
                : count == reports_with("late", "for a message of rank 0");
}

/* Every rank of a slow or late set-up had its own line. Only those who wait for rank 0 speak in its place. On a busy machine rank 0
 * may stand still for as long as a rank waits before it speaks, so this becomes longer. */
START_TEST(one_line_about_a_set_up)
{
    static const int late[] = {3, 0};
    job_t job = threads_job(5, comes_late);
    bool right = false;

    job.arg = &late[_i];
    job.delay_us = 0;
    for (job.params.warn = 1; job.params.warn < 20 && !right; job.params.warn *= 3) {
        threads_run(&job);
        right = has_one_line(late[_i]);
    }
    ck_assert(right);
}
END_TEST

static void waits_for_room(rank_t *r)
{
    enum { N = 4 };
    uint8_t send[16] = {0}, recv[N][2 * 16];
    dma_side_t from = data_buffer(send, 16);
    dma_task_t *tasks[N];
    dma_status_t status = DMA_OK;

    threads_prepare(r, r->comms[0]);
    r->proc->params.warn = 0.05; /* not earlier: a set-up may be late as well */
    r->proc->params.entry_timeout = 0.15;
    for (int i = 0; r->rank == 1 && i < N; i++) {
        dma_side_t to = data_buffer(recv[i], 16);
        must(r, data_iallgather(r->comms[0], &from, &to, &tasks[i]) == DMA_OK, "posted");
    }
    threads_barrier(r);
    for (int i = 0; r->rank == 0 && i <= N; i++) {
        dma_side_t to = data_buffer(recv[i % N], 16);
        must(r, status == DMA_OK, "call %d: %s", i, dma_status_name(status));
        status = data_allgather(r->comms[0], &from, &to);
    }
    must(r, r->rank || status == DMA_ERR_TIMEOUT, "%s", dma_status_name(status));
    threads_barrier(r);
    for (int i = 0; r->rank == 1 && i < N; i++) {
        status = finish(tasks[i]);
        must(r, status == DMA_OK || status == DMA_ERR_TIMEOUT, "%s", dma_status_name(status));
    }
}

/* Rank 0 has no room in its ring for a call that neither rank has entered. The report named rank 0 itself as the
 * late rank. */
START_TEST(late_line_never_names_the_waiting_rank)
{
    job_t job = threads_job(2, waits_for_room);

    job.params.ring_depth = 4;
    job.params.warn = 0;
    threads_run(&job);
    ck_assert_ptr_nonnull(strstr(reports_first("late"), "rank 0 has waited"));
    ck_assert_ptr_nonnull(strstr(reports_first("late"), "for rank 1, which has not entered it"));
    ck_assert_ptr_nonnull(strstr(reports_first("failed"), "rank 1 has not entered call 5"));
}
END_TEST

/* ---- limits ---- */

static size_t shared_bytes(rank_t *r)
{
    return r->proc->file_bytes + (r->proc->arena ? dma_arena_used(r->proc->arena) : 0);
}

static void many_communicators(rank_t *r)
{
    enum { MOST = 200 };
    dma_comm_t *comms[MOST];
    dma_status_t status = DMA_OK;
    int n = 0;

    while (status == DMA_OK) {
        must(r, n < MOST, "there is no limit");
        comms[n] = threads_comm(r, 0);
        status = dma_comm_prepare(comms[n++]);
        must(r, shared_bytes(r) <= r->job->params.arena_bytes, "%zu bytes with %d communicators", shared_bytes(r), n);
    }
    must(r, status == DMA_UNSUPPORTED, "%s", dma_status_name(status));
    while (n--) {
        dma_comm_destroy(comms[n]);
    }
}

/* Files had a limit of their own, so that a process used twice as much shared memory as arena_bytes allows. */
START_TEST(arena_bytes_bounds_files_as_well)
{
    char session[] = "/tmp/dma-test-XXXXXX";
    job_t job = threads_job(2, many_communicators);

    ck_assert_ptr_nonnull(mkdtemp(session));
    job.session_dir = session;
    job.delay_us = 1;
    threads_run(&job);
    ck_assert_int_eq(rmdir(session), 0);
}
END_TEST

/* ---- acknowledgements ---- */

/* A descriptor that is read late has an older acknowledgement than a later descriptor. The older one replaced the
 * newer one, which is not repeated, and the ring had no room ever after. */
START_TEST(acknowledgements_never_go_back)
{
    dma_geom_t geom = {.ring_depth = 8, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    const dma_op_t wait = {.code = DMA_OP_WAIT, .flag = {.kind = DMA_FLAG_ENTRY, .rank = 1}, .value = 1};
    dma_prog_t prog = {.link = DMA_ON_HOST, .ops = &wait, .nops = 1, .loop_first = 1};
    dma_plan_t plan = {.nranks = 2, .nprogs = 1, .progs = &prog};
    dma_peer_t peers[2] = {{0}};
    uint32_t acks[2] = {9, 12}; /* as the descriptor of call 14 says */
    dma_window_t w = {.nranks = 2, .geom = geom, .peers = peers, .acks = acks};
    dma_cursor_t cursor;
    dma_arena_t *arena;

    arena = threads_blocks(&w);
    for (uint32_t call = 13; call < 16; call++) {
        dma_run_t run = {.plan = &plan, .window = &w, .cursors = &cursor, .seq = call};
        dma_desc_t *theirs = dma_window_desc(&w, 1, call);

        theirs->ack = call - 3;
        atomic_store(&theirs->seq, call);
        ck_assert_int_eq(dma_engine_host.start(&run), DMA_OK);
        ck_assert_int_eq(dma_engine_host.advance(&run), DMA_OK);
        ck_assert_uint_eq(acks[1], 12);
    }
    dma_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("failures");

    unit_test(suite, call_unplaced_before_the_set_up, LIMIT);
    unit_test(suite, init_after_a_failure_that_some_have_seen, LIMIT);
    unit_test(suite, start_larger_than_its_channel, LIMIT);
    unit_test(suite, an_answer_is_no_failure, LIMIT);
    unit_test(suite, communicator_of_a_channel_that_fails, LIMIT);
    unit_test(suite, staging_of_messages_under_way, LIMIT);
    unit_loop(suite, one_line_about_a_set_up, 0, 2, 10 * LIMIT);
    unit_test(suite, late_line_never_names_the_waiting_rank, LIMIT);
    unit_test(suite, arena_bytes_bounds_files_as_well, LIMIT);
    unit_test(suite, acknowledgements_never_go_back, LIMIT);
    return unit_main(suite);
}
