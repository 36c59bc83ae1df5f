/*
 * Ranks whose process has not loaded coll/dma (core/absent.c): the others leave the communicator by themselves, and ranks that are only
 * late are waited for. Ranks are threads, and an absent one does nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "dma/clock.h"
#include "libpart.h"
#include "libunit.h"

enum { BYTES = 100, SECONDS = 1 };

static dma_host_t host;
static int absent; /* what the host says; -1: none */
static _Atomic int asked, cancelled;
static _Thread_local int asked_here, progressed; /* by this rank */

static int find_absent(void *comm)
{
    (void)comm;
    asked++;
    asked_here++;
    return absent;
}

static void cancel(void *comm, void **req)
{
    threads_host.cancel(comm, req);
    cancelled += !*req;
}

static void progress(void)
{
    progressed++;
    threads_host.progress();
}

static void begin(int who)
{
    host = threads_host;
    host.progress = progress;
    host.find_absent = find_absent;
    host.cancel = cancel;
    absent = who;
    asked = cancelled = 0;
}

static void must_be_left(rank_t *r, dma_comm_t *comm)
{
    char text[100];

    snprintf(text, sizeof(text), "rank %d has not loaded coll/dma", absent);
    must(r, dma_comm_state(comm) == DMA_COMM_ASIDE && dma_comm_is_left(comm), "state %d", dma_comm_state(comm));
    must(r, !strcmp(dma_comm_reason(comm), text), "%s", dma_comm_reason(comm));
    must(r, comm->row->state == DMA_COMM_ASIDE, "coll_dma_state sees state %d", (int)comm->row->state);
    must(r, !comm->setup, "the set-up goes on");
}

static void wait_for_absent(rank_t *r)
{
    double began = dma_now();

    if (r->rank != absent) {
        r->comms[0]->host = &host;
        must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "%s", dma_comm_reason(r->comms[0]));
        must_be_left(r, r->comms[0]);
        must(r, dma_now() - began >= SECONDS, "after %.3f s", dma_now() - began);
        must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "%s", dma_comm_reason(r->comms[0]));
    }
    threads_barrier(r); /* the groups of messages live until all have left */
}

/* Also ranks that have got all messages that they wait for from others than the absent one. */
START_TEST(all_others_leave)
{
    int n = 2 + _i / 2;
    job_t job = threads_job(n, wait_for_absent);

    begin(_i % 2 ? n - 1 : 0);
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_rank_not_loaded), (unsigned)n - 1);
    ck_assert_int_eq(asked, n - 1);
    ck_assert_int_ge(cancelled,
                     1); /* who waits for the absent rank; others can be left with a send that does not end */
}
END_TEST

/* Prepares a communicator. On a busy machine that may take long enough for a look. */
static void prepare_without_need(rank_t *r)
{
    double began = dma_now();

    threads_prepare(r, r->comms[0]);
    must(r, asked_here == 0 || (asked_here == 1 && dma_now() - began >= SECONDS), "looked %d times", asked_here);
}

static void late(rank_t *r)
{
    uint8_t send[BYTES] = {0}, recv[4 * BYTES];
    dma_side_t from = data_buffer(send, BYTES), to = data_buffer(recv, BYTES);

    r->comms[0]->host = &host;
    if (r->rank == 2) {
        usleep(2500000);
        prepare_without_need(r);
    } else {
        threads_prepare(r, r->comms[0]);
        must(r, asked_here == 1, "looked %d times", asked_here);
    }
    must(r, !dma_comm_is_left(r->comms[0]), "left");
    must(r, data_allgather(r->comms[0], &from, &to) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    dma_comm_leave(r->comms[0], 2); /* too late */
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_READY, "left");
}

/* Each rank looks once. */
START_TEST(late_ranks_are_waited_for)
{
    job_t job = threads_job(4, late);

    begin(-1);
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_rank_not_loaded), 0);
}
END_TEST

static void quick(rank_t *r)
{
    r->comms[0]->host = &host;
    prepare_without_need(r);
}

START_TEST(a_set_up_does_not_look)
{
    job_t job = threads_job(4, quick);

    begin(-1);
    threads_run(&job);
}
END_TEST

static void known_before(rank_t *r)
{
    uint8_t send[BYTES] = {0}, recv[4 * BYTES];
    dma_side_t from = data_buffer(send, BYTES), to = data_buffer(recv, BYTES);
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = from, .recv = to};

    if (r->rank != absent) {
        r->comms[0]->host = &host;
        dma_comm_leave(r->comms[0], absent);
        must_be_left(r, r->comms[0]);
        must(r, !dma_comm_begin_first(r->comms[0], &call), "a first call");
        must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "%s", dma_comm_reason(r->comms[0]));
        must(r, progressed == 0, "it waits");
    }
}

START_TEST(nobody_waits_for_what_is_known)
{
    job_t job = threads_job(3, known_before);

    begin(1);
    threads_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_rank_not_loaded), 2);
    ck_assert_int_eq(asked, 0);
}
END_TEST

/* A posted call cannot go to the next module. It must not hang either. */
static void posted(rank_t *r)
{
    uint8_t send[BYTES] = {0}, recv[3 * BYTES];
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = data_buffer(send, BYTES), .recv = data_buffer(recv, BYTES)};
    dma_task_t *task;

    if (r->rank != absent) {
        r->comms[0]->host = &host;
        must(r, task_post(r->comms[0], &call, NULL, NULL, &task) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        must(r, dma_comm_prepare(r->comms[0]) == DMA_ERR_ARG, "%s", dma_comm_reason(r->comms[0]));
        must(r, dma_task_test(task) == DMA_ERR_ARG, "%s", dma_status_name(dma_task_test(task)));
        must(r, strstr(dma_comm_reason(r->comms[0]), "has not loaded coll/dma"), "%s", dma_comm_reason(r->comms[0]));
        task_free(task);
    }
    threads_barrier(r);
}

START_TEST(posted_calls_fail)
{
    job_t job = threads_job(3, posted);

    begin(2);
    threads_run(&job);
}
END_TEST

static void on_nodes(rank_t *r)
{
    part_t p;

    part_open(r, &p, BYTES);
    if (r->rank != absent) {
        p.comm->host = &host;
        must(r, dma_comm_prepare(p.comm) == DMA_UNSUPPORTED, "%s", dma_comm_reason(p.comm));
        must_be_left(r, p.comm);
    }
    threads_barrier(r);
    part_close(&p);
}

START_TEST(all_others_leave_over_nodes)
{
    job_t job = part_job(6, part_of_six, on_nodes, "auto");

    begin(_i);
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_rank_not_loaded), 5);
    ck_assert_int_ge(cancelled, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("absent");

    unit_loop(s, all_others_leave, 0, 10, 30);
    unit_test(s, late_ranks_are_waited_for, 30);
    unit_test(s, a_set_up_does_not_look, 30);
    unit_test(s, nobody_waits_for_what_is_known, 30);
    unit_test(s, posted_calls_fail, 30);
    unit_loop(s, all_others_leave_over_nodes, 1, 6, 30);
    return unit_main(s);
}
