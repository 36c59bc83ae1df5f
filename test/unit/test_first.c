/*
 * The first calls of a communicator over several nodes, which coll/dma leaves to others (core/first.c): which calls these are,
 * that no network is opened for them, that calls by messages may still be under way when the set-up begins, and what happens if
 * one fails or the communicator ends before its set-up. Ranks are threads, and the network is memory.
 */
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "libpart.h"
#include "libunit.h"
#include "libwire.h"

enum { BYTES = 300, OPEN = 3 };

static job_t first_job(void (*body)(rank_t *), uint32_t calls)
{
    job_t job = part_job(6, part_of_six, body, "auto");

    job.params.net_first_calls = calls;
    return job;
}

/* A non-blocking call with buffers of its own. */
typedef struct flight {
    part_t part;
    dma_task_t *task;
    uint64_t tag;
    dma_coll_t coll;
} flight_t;

static void post(rank_t *r, flight_t *f, dma_comm_t *comm, uint64_t tag)
{
    dma_call_t call;

    *f = (flight_t){.part = {.comm = comm, .most = BYTES}, .tag = tag, .coll = tag & 1 ? DMA_ALLTOALL : DMA_ALLGATHER};
    f->part.send = malloc((size_t)r->n * BYTES);
    f->part.recv = malloc((size_t)r->n * BYTES);
    call = part_call(r, &f->part, f->coll, false, BYTES, tag * 100);
    must(r, task_post(comm, &call, NULL, NULL, &f->task) == DMA_OK, "post: %s", dma_comm_reason(comm));
}

static void complete(rank_t *r, flight_t *f)
{
    while (dma_task_test(f->task) == DMA_AGAIN) {
        dma_proc_progress(r->proc);
    }
    must(r, dma_task_test(f->task) == DMA_OK, "a call has failed: %s", dma_comm_reason(f->part.comm));
    part_check(r, &f->part, f->coll, BYTES, f->tag * 100);
    task_free(f->task);
    free(f->part.send);
    free(f->part.recv);
}

/* A blocking call that coll/dma carries out. */
static void run(rank_t *r, dma_comm_t *comm, uint64_t tag)
{
    part_t p = {
        .comm = comm, .most = BYTES, .send = malloc((size_t)r->n * BYTES), .recv = malloc((size_t)r->n * BYTES)};
    dma_call_t call = part_call(r, &p, DMA_ALLGATHER, false, BYTES, tag * 100);

    must(r, !dma_comm_begin_first(comm), "one of the first calls");
    threads_prepare(r, comm);
    must(r, dma_comm_run(comm, &call) == DMA_OK, "blocking: %s", dma_comm_reason(comm));
    part_check(r, &p, DMA_ALLGATHER, BYTES, tag * 100);
    free(p.send);
    free(p.recv);
}

/* The first three calls, blocking or not. The number of the call is what counts. */
static void three(rank_t *r)
{
    int blocking = *(const int *)r->job->arg;
    const dma_state_row_t *row = NULL;
    flight_t f;
    part_t p;

    part_open(r, &p, BYTES);
    for (int i = 0; i < 3; i++) {
        if (blocking >> i & 1) {
            must(r, dma_comm_begin_first(p.comm), "call %d is one of the first", i);
            dma_comm_count_below(p.comm, DMA_ALLGATHER);
            dma_comm_end_first(p.comm);
        } else {
            post(r, &f, p.comm, (uint64_t)i);
            must(r, f.task->route == &dma_route_messages, "call %d by messages", i);
            complete(r, &f);
        }
        must(r, dma_comm_state(p.comm) == DMA_COMM_FIRST, "state %d", dma_comm_state(p.comm));
        must(r,
             p.comm->row->state == DMA_COMM_FIRST && p.comm->row->begun == (uint64_t)i + 1 &&
                 p.comm->row->completed == (uint64_t)i + 1,
             "coll_dma_state sees %d calls", i + 1);
        must(r, !row || row == p.comm->row, "another row of coll_dma_state");
        must(r, !r->proc->net_tried, "the network is open");
        row = p.comm->row;
    }
    if (blocking & 8) {
        run(r, p.comm, 3);
    } else {
        post(r, &f, p.comm, 3);
        must(r, f.task->route == p.comm->route, "the fourth call between nodes");
        complete(r, &f);
    }
    must(r, dma_comm_state(p.comm) == DMA_COMM_READY && r->proc->net_tried, "not set up");
    must(r, row == p.comm->row, "another row of coll_dma_state");
    must(r, p.comm->row->begun == 4 && p.comm->row->completed == 4, "coll_dma_state sees 4 calls");
    part_close(&p);
}

START_TEST(the_number_of_the_call_decides)
{
    int blocking = _i;
    job_t job = first_job(three, 3);

    job.arg = &blocking;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), 3 * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_nodes), 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_below) + counts_sum(DMA_COUNT_calls_messages), 3 * 6);
}
END_TEST

/* Calls are posted while those before them are under way, and ranks come late: messages of first calls, of the set-up and of later
 * calls are under way together. */
static void overlapping(rank_t *r)
{
    for (int round = 0; round < 6; round++) {
        flight_t f[OPEN + 2];
        part_t p;
        int n = 0;

        part_open(r, &p, BYTES);
        for (; n < OPEN; n++) {
            if (threads_random(r, 3) == 0) {
                dma_proc_progress(r->proc);
            }
            post(r, &f[n], p.comm, (uint64_t)(round * 10 + n));
        }
        if (round & 1) {
            run(r, p.comm, (uint64_t)round * 10 + 5);
        }
        for (; n < OPEN + 2; n++) {
            post(r, &f[n], p.comm, (uint64_t)(round * 10 + n));
        }
        while (n-- > 0) {
            complete(r, &f[n]);
        }
        part_close(&p);
        threads_barrier(r);
    }
}

START_TEST(the_setup_begins_behind_open_calls)
{
    job_t job = first_job(overlapping, (uint32_t)_i);

    job.delay_us = 300;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), (unsigned)_i * 6 * 6);
}
END_TEST

/* A first call completes while other calls wait for a set-up that one rank has not begun. */
static void waits_for_calls(rank_t *r)
{
    flight_t first, second;
    part_t p;

    part_open(r, &p, BYTES);
    post(r, &first, p.comm, 1);
    if (r->rank > 0) {
        post(r, &second, p.comm, 2);
    }
    complete(r, &first);
    if (r->rank > 0) {
        must(r, dma_comm_state(p.comm) == DMA_COMM_SETUP, "state %d", dma_comm_state(p.comm));
        r->job->reached++;
    } else {
        while (r->job->reached < r->n - 1) {
            dma_proc_progress(r->proc);
        }
        post(r, &second, p.comm, 2);
    }
    complete(r, &second);
    part_close(&p);
}

START_TEST(an_open_call_needs_no_setup)
{
    job_t job = first_job(waits_for_calls, 1);

    part_run(&job);
}
END_TEST

/* Then the set-up ends ASIDE: all calls are done by messages. */
static void not_served(rank_t *r)
{
    flight_t f[OPEN];
    part_t p;

    part_open(r, &p, BYTES);
    for (int i = 0; i < OPEN; i++) {
        post(r, &f[i], p.comm, (uint64_t)i);
    }
    for (int i = 0; i < OPEN; i++) {
        complete(r, &f[i]);
    }
    must(r, dma_comm_state(p.comm) == DMA_COMM_ASIDE, "state %d", dma_comm_state(p.comm));
    part_close(&p);
}

START_TEST(a_setup_that_ends_aside)
{
    job_t job = first_job(not_served, 1);

    job.params.arena_bytes = 0;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_messages), OPEN * 6);
}
END_TEST

/* Persistent calls are meant for repetition. */
static void persistent(rank_t *r)
{
    _Atomic int ended = 0;
    dma_channel_t *channel;
    dma_call_t call;
    part_t p;

    part_open(r, &p, BYTES);
    call = part_call(r, &p, DMA_ALLGATHER, false, BYTES, 100);
    must(r, dma_channel_create(p.comm, &call, part_count, (void *)&ended, &channel) == DMA_OK, "channel");
    must(r, dma_comm_state(p.comm) == DMA_COMM_READY, "state %d", dma_comm_state(p.comm));
    must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
    while (!ended) {
        dma_proc_progress(r->proc);
    }
    must(r, ended == 1, "the channel has failed");
    part_check(r, &p, DMA_ALLGATHER, BYTES, 100);
    dma_channel_destroy(channel);
    part_close(&p);
}

START_TEST(a_persistent_call_begins_the_setup)
{
    job_t job = first_job(persistent, 5);

    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), 0);
}
END_TEST

/* Communicators that end before their set-up, at any of their first calls. */
static void freed_early(rank_t *r)
{
    for (int calls = 0; calls < 3; calls++) {
        flight_t f;
        part_t p;

        part_open(r, &p, BYTES);
        for (int i = 0; i < calls; i++) {
            post(r, &f, p.comm, (uint64_t)i);
            complete(r, &f);
        }
        part_close(&p);
    }
    must(r, !r->proc->net_tried, "the network is open");
}

START_TEST(a_communicator_ends_before_its_setup)
{
    job_t job = first_job(freed_early, 2);

    part_run(&job);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_setups), 0);
}
END_TEST

/* A first call that sends and receives different numbers of bytes fails where it is posted, and no rank waits in a set-up. */
static void wrong(rank_t *r)
{
    dma_call_t call;
    dma_task_t *task;
    part_t p;

    part_open(r, &p, BYTES);
    call = part_call(r, &p, DMA_ALLGATHER, false, BYTES, 100);
    call.send.count--;
    must(r, task_post(p.comm, &call, NULL, NULL, &task) == DMA_ERR_TRUNCATE, "no error");
    must(r, dma_comm_state(p.comm) == DMA_COMM_POISONED, "state %d", dma_comm_state(p.comm));
    call = part_call(r, &p, DMA_ALLGATHER, false, BYTES, 100);
    must(r, task_post(p.comm, &call, NULL, NULL, &task) == DMA_ERR_TRUNCATE, "it stays failed");
    must(r, !dma_comm_begin_first(p.comm) && dma_comm_prepare(p.comm) == DMA_ERR_TRUNCATE, "blocking calls, too");
    must(r, !r->proc->net_tried, "the network is open");
    part_close(&p);
}

START_TEST(a_wrong_first_call)
{
    job_t job = first_job(wrong, 1);

    part_run(&job);
}
END_TEST

/* Communicators of one node are set up by their first call. */
static void one_node(rank_t *r)
{
    dma_comm_t *comm = threads_comm(r, 0);

    must(r, !dma_comm_begin_first(comm), "one of the first calls");
    threads_prepare(r, comm);
    dma_comm_destroy(comm);
}

START_TEST(one_node_has_no_first_calls)
{
    job_t job = threads_job(3, one_node);

    job.ncomms = 1;
    job.params.net_first_calls = 1;
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("first");

    unit_loop(suite, the_number_of_the_call_decides, 0, 16, 60);
    unit_loop(suite, the_setup_begins_behind_open_calls, 0, OPEN + 1, 60);
    unit_test(suite, an_open_call_needs_no_setup, 60);
    unit_test(suite, a_setup_that_ends_aside, 60);
    unit_test(suite, a_persistent_call_begins_the_setup, 60);
    unit_test(suite, a_communicator_ends_before_its_setup, 60);
    unit_test(suite, a_wrong_first_call, 60);
    unit_test(suite, one_node_has_no_first_calls, 60);
    return unit_main(suite);
}
