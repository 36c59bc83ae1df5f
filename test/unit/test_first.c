/*
 * The first blocking calls of a communicator over several nodes, which coll/dma leaves to the next module (core/first.c): which
 * calls these are, that no network is opened for them, that other calls begin the set-up, and communicators that end before it.
 * Ranks are threads, and the network is memory.
 */
#include <sched.h>
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
        sched_yield();
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

    must(r, !dma_comm_begin_first(comm, &call), "one of the first calls");
    threads_prepare(r, comm);
    must(r, dma_comm_run(comm, &call) == DMA_OK, "blocking: %s", dma_comm_reason(comm));
    part_check(r, &p, DMA_ALLGATHER, BYTES, tag * 100);
    free(p.send);
    free(p.recv);
}

/* So many small calls that the next module carries out. */
static void leave(rank_t *r, dma_comm_t *comm, int calls)
{
    dma_side_t side = data_buffer(NULL, BYTES);
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = side, .recv = side};
    const dma_state_row_t *row = NULL;
    bool open = r->proc->net_tried; /* by another communicator */

    for (int i = 0; i < calls; i++) {
        must(r, dma_comm_begin_first(comm, &call), "call %d is one of the first", i);
        must(r, comm->row->begun == (uint64_t)i + 1 && comm->row->completed == (uint64_t)i, "call %d is under way", i);
        dma_comm_count_below(comm, DMA_FORM_BLOCKING, DMA_ALLGATHER);
        dma_comm_end_first(comm);
        must(r, dma_comm_state(comm) == DMA_COMM_FIRST, "state %d", dma_comm_state(comm));
        must(r, strstr(comm->row->reason, "the first calls"), "coll_dma_state: why");
        must(r, comm->row->state == DMA_COMM_FIRST && comm->row->completed == (uint64_t)i + 1,
             "coll_dma_state: call %d", i);
        must(r, !row || row == comm->row, "another row of coll_dma_state");
        row = comm->row;
    }
    must(r, r->proc->net_tried == open, "the network has been opened");
}

/* Of three first calls so many come. Then comes another one, which begins the set-up if it does not block, or is the fourth. */
typedef struct order {
    int first;
    bool blocking;
} order_t;

static void three(rank_t *r)
{
    const order_t *order = r->job->arg;
    const dma_state_row_t *row;
    flight_t f;
    part_t p;

    part_open(r, &p, BYTES);
    leave(r, p.comm, order->first);
    row = p.comm->row;
    if (order->blocking) {
        run(r, p.comm, 3);
    } else {
        post(r, &f, p.comm, 3);
        must(r, f.task->route == p.comm->route, "not between nodes");
        complete(r, &f);
    }
    must(r, dma_comm_state(p.comm) == DMA_COMM_READY && r->proc->net_tried, "not set up");
    must(r, !order->first || row == p.comm->row, "another row of coll_dma_state");
    must(r, p.comm->row->begun == (uint64_t)order->first + 1 && p.comm->row->completed == p.comm->row->begun,
         "coll_dma_state sees %llu calls", (unsigned long long)p.comm->row->begun);
    run(r, p.comm, 4); /* none of the first any more, whatever its number */
    part_close(&p);
}

START_TEST(the_number_and_the_form_decide)
{
    static const order_t orders[] = {{0, false}, {1, false}, {2, false}, {3, false}, {3, true}};
    const order_t *order = &orders[_i];
    job_t job = first_job(three, 3);

    job.arg = (void *)(uintptr_t)order;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), (unsigned)order->first * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_nodes), 2 * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_below), (unsigned)order->first * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_messages), 0);
}
END_TEST

/* How many calls of one kind the next module carries out, of two ranks that describe their blocks by other types, and how many of
 * the default number. */
typedef struct load {
    dma_coll_t coll;
    size_t bytes; /* of the average block */
    int calls, by_default;
} load_t;

static const load_t loads[] = {
    {DMA_ALLGATHER, 1, 5, 64},      {DMA_ALLGATHER, 2047, 5, 64},  {DMA_ALLGATHER, 2048, 3, 32},
    {DMA_ALLGATHER, 8191, 2, 16},   {DMA_ALLGATHER, 8192, 1, 13},  {DMA_ALLTOALL, 16384, 1, 8},
    {DMA_ALLTOALL, 1u << 30, 1, 1}, {DMA_ALLGATHERV, 1024, 5, 64}, {DMA_ALLGATHERV, 4096, 2, 22},
    {DMA_ALLGATHERV, 131072, 1, 1}, {DMA_ALLTOALLV, 1, 1, 8},      {DMA_ALLTOALLV, 1u << 20, 1, 8},
};

/* Rank 0 of a call has elements of one byte, the others as large ones as there are. */
static dma_call_t load_call(const rank_t *r, const load_t *load, int *counts)
{
    size_t element = r->rank && load->bytes % 2048 == 0 ? 2048 : 1, n = (size_t)r->n;
    dma_side_t side = {.dense = true, .width = sizeof(int), .size = element, .extent = (ptrdiff_t)element};

    side.count = load->bytes / element;
    if (load->coll == DMA_ALLGATHERV || load->coll == DMA_ALLTOALLV) { /* all in one block */
        counts[1] = (int)(load->bytes * n / element);
        counts[1] = load->coll == DMA_ALLTOALLV && r->rank != 1 ? 0 : counts[1];
        side.counts = side.displs = counts;
        counts[n] = 1 << 20; /* of no rank */
    }
    return (dma_call_t){.coll = load->coll, .send = side, .recv = side};
}

static void count_load(rank_t *r)
{
    const load_t *load = r->job->arg;
    int counts[16] = {0}, calls = 0;
    dma_call_t call = load_call(r, load, counts);
    dma_params_t defaults;
    part_t p;

    dma_params_default(&defaults);
    part_open(r, &p, BYTES);
    while (dma_comm_begin_first(p.comm, &call)) {
        dma_comm_end_first(p.comm);
        calls++;
    }
    must(r, calls == (r->job->params.net_first_calls == 5 ? load->calls : load->by_default), "%d calls", calls);
    part_close(&p);
}

START_TEST(the_sizes_decide)
{
    dma_params_t defaults;

    dma_params_default(&defaults);
    for (int round = 0; round < 2; round++) {
        job_t job = first_job(count_load, round ? 5 : defaults.net_first_calls);

        job.arg = (void *)(uintptr_t)&loads[_i];
        part_run(&job);
    }
}
END_TEST

/* Calls behind the first ones are posted while ranks come late. */
static void overlapping(rank_t *r)
{
    for (int round = 0; round < 6; round++) {
        flight_t f[OPEN];
        part_t p;
        int n = 0;

        part_open(r, &p, BYTES);
        leave(r, p.comm, 2);
        for (; n < OPEN; n++) {
            if (threads_random(r, 3) == 0) {
                dma_proc_progress(r->proc);
            }
            post(r, &f[n], p.comm, (uint64_t)(round * 10 + n));
        }
        if (round & 1) {
            run(r, p.comm, (uint64_t)round * 10 + 5);
        }
        while (n-- > 0) {
            complete(r, &f[n]);
        }
        part_close(&p);
        threads_barrier(r);
    }
}

START_TEST(calls_behind_them_overlap)
{
    job_t job = first_job(overlapping, 2);

    job.delay_us = 300;
    part_run(&job);
}
END_TEST

/* Then the set-up ends ASIDE: all calls are done by messages. */
static void not_served(rank_t *r)
{
    flight_t f[OPEN];
    part_t p;

    part_open(r, &p, BYTES);
    leave(r, p.comm, 1);
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
        sched_yield();
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
        part_t p;

        part_open(r, &p, BYTES);
        leave(r, p.comm, calls);
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

/* Communicators of one node are set up by their first call. */
static void one_node(rank_t *r)
{
    dma_comm_t *comm = threads_comm(r, 0);
    dma_side_t side = data_buffer(NULL, BYTES);
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = side, .recv = side};

    comm->first_calls = 1; /* as the component sets it for all communicators */
    must(r, !dma_comm_begin_first(comm, &call), "one of the first calls");
    threads_prepare(r, comm);
    dma_comm_destroy(comm);
}

/* All ranks use the number of the communicator, and none its own. */
static void differ(int rank, dma_params_t *params)
{
    params->net_first_calls = (uint32_t)rank;
}

START_TEST(ranks_with_other_parameters_use_the_number_of_the_communicator)
{
    static const order_t order = {2, true};
    job_t job = first_job(three, 2);

    job.arg = (void *)(uintptr_t)&order;
    job.tune = differ;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_first_calls), 2 * 6);
}
END_TEST

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

    unit_loop(suite, the_number_and_the_form_decide, 0, 5, 60);
    unit_loop(suite, the_sizes_decide, 0, (int)(sizeof(loads) / sizeof(loads[0])), 60);
    unit_test(suite, calls_behind_them_overlap, 60);
    unit_test(suite, a_setup_that_ends_aside, 60);
    unit_test(suite, a_persistent_call_begins_the_setup, 60);
    unit_test(suite, a_communicator_ends_before_its_setup, 60);
    unit_test(suite, ranks_with_other_parameters_use_the_number_of_the_communicator, 60);
    unit_test(suite, one_node_has_no_first_calls, 60);
    return unit_main(suite);
}
