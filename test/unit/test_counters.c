/*
 * The counters. Every list that is counted has enough room. Names are unique. Calls are counted by operation and form,
 * by variant and in bytes, for the process and for each communicator. The counts of channels and communicators that
 * have ended are kept.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "engine/gpu.h"
#include "libthreads.h"
#include "libunit.h"
#include "plan/cluster/cluster.h"

#define RANKS 3

/* The number of the counter with this name. */
static int find(const char *name)
{
    dma_counter_t counter;

    for (size_t i = 0; dma_counter_describe(i, &counter); i++) {
        if (!strcmp(counter.name, name)) {
            return counter.which;
        }
    }
    ck_abort_msg("there is no counter %s", name);
}

/* ---- the list ---- */

START_TEST(lists_have_room)
{
    size_t n = 0, net = 0, engines = 0;

    while (dma_variants[n]) {
        n++;
    }
    while (dma_cluster_variants[net]) {
        net++;
    }
    while (dma_gpu_engines[engines]) {
        engines++;
    }
    ck_assert_uint_le(n, DMA_COUNT_VARIANTS);
    ck_assert_uint_le(net, DMA_COUNT_NET_VARIANTS);
    ck_assert_uint_le(engines, DMA_COUNT_ENGINES);
}
END_TEST

START_TEST(names_are_unique)
{
    dma_counter_t a, b;
    size_t n = 0;

    for (; dma_counter_describe(n, &a); n++) {
        ck_assert_int_lt(a.which, DMA_COUNTS);
        ck_assert_uint_gt(strlen(a.help), 10);
        ck_assert_uint_lt(strlen(a.help), sizeof(a.help) - 1);
        ck_assert_uint_lt(strlen(a.name), sizeof(a.name) - 1);
        for (size_t k = 0; k < n && dma_counter_describe(k, &b); k++) {
            ck_assert_str_ne(a.name, b.name);
            ck_assert_int_ne(a.which, b.which);
        }
    }
    ck_assert_uint_gt(n, 40);
}
END_TEST

/* A call is counted by the number of its operation. */
START_TEST(forms_have_the_order_of_the_operations)
{
    static const char *const functions[] = {DMA_COLLS(DMA_COLL_FUNCTION)};
    static const struct {
        const char *text;
        int first;
    } forms[] = {
        {"blocking", DMA_COUNT_BLOCKING}, {"nonblocking", DMA_COUNT_NONBLOCKING}, {"persistent", DMA_COUNT_PERSISTENT}};
    char name[64];

    for (int f = 0; f < 3; f++) {
        for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
            snprintf(name, sizeof(name), "calls_%s_%s", forms[f].text, functions[coll]);
            ck_assert_int_eq(find(name), forms[f].first + coll);
        }
    }
}
END_TEST

/* The last columns of DMA_COLLS, against MPI's definitions of these functions. Other tests take them from the table. */
START_TEST(operations_are_those_of_mpi)
{
    static const char *const functions[] = {DMA_COLLS(DMA_COLL_FUNCTION)};
    static const struct {
        const char *function;
        bool gathers;
        dma_sizes_t sizes;
    } defined[] = {{"allgather", true, DMA_SIZES_EQUAL},
                   {"allgatherv", true, DMA_SIZES_SHARED},
                   {"alltoall", false, DMA_SIZES_EQUAL},
                   {"alltoallv", false, DMA_SIZES_OWN},
                   {"alltoallw", false, DMA_SIZES_OWN}};
    unsigned found = 0;

    for (size_t i = 0; i < sizeof(defined) / sizeof(defined[0]); i++) {
        for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
            if (!strcmp(functions[coll], defined[i].function)) {
                ck_assert_int_eq(dma_coll_gathers((dma_coll_t)coll), defined[i].gathers);
                ck_assert_int_eq(dma_coll_sizes((dma_coll_t)coll), defined[i].sizes);
                found++;
            }
        }
    }
    ck_assert_uint_eq(found, sizeof(defined) / sizeof(defined[0]));
}
END_TEST

/* ---- calls ---- */

static uint64_t of_proc(const rank_t *r, const char *name)
{
    return dma_counters_read(r->proc->counters, find(name), NULL);
}

static uint64_t of_comm(const rank_t *r, const dma_comm_t *comm, const char *name)
{
    return dma_counters_read(r->proc->counters, find(name), comm->handle);
}

static void gather(rank_t *r, dma_comm_t *comm, size_t bytes)
{
    char *a = calloc(1, bytes), *b = calloc(RANKS, bytes);
    dma_side_t send = data_buffer(a, bytes), recv = data_buffer(b, bytes);

    threads_prepare(r, comm);
    must(r, data_allgather(comm, &send, &recv) == DMA_OK, "a gather");
    free(a);
    free(b);
}

static void note_done(void *arg, dma_status_t status)
{
    *(bool *)arg = status == DMA_OK;
}

static void wait_for(rank_t *r, const bool *done)
{
    while (!*done) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
}

static void start_channel(rank_t *r, dma_comm_t *comm, int starts)
{
    char recv[RANKS * 8];
    bool done;
    dma_call_t call = {.coll = DMA_ALLTOALL, .in_place = true, .recv = data_buffer(recv, 8)};
    dma_channel_t *channel;

    must(r, dma_channel_create(comm, &call, note_done, &done, &channel) == DMA_OK, "a channel");
    for (int i = 0; i < starts; i++) {
        done = false;
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "a start");
        wait_for(r, &done);
    }
    dma_channel_destroy(channel);
}

static void post_uneven(rank_t *r, dma_comm_t *comm)
{
    int counts[RANKS] = {1, 2, 3}, displs[RANKS] = {0, 1, 3};
    char send[RANKS], recv[6];
    dma_call_t call = {
        .coll = DMA_ALLGATHERV, .send = data_buffer(send, (size_t)counts[r->rank]), .recv = data_buffer(recv, 1)};
    dma_task_t *task;
    bool done = false;

    call.recv.counts = counts;
    call.recv.displs = displs;
    call.recv.width = sizeof(int);
    must(r, task_post(comm, &call, note_done, &done, &task) == DMA_OK, "a post");
    wait_for(r, &done);
    task_free(task);
}

/* Two communicators: one ends, and one is read. */
static void count_calls(rank_t *r)
{
    dma_comm_t *ended = r->comms[0], *comm = r->comms[1];

    gather(r, ended, 10);
    gather(r, r->comms[2], 20);
    dma_comm_destroy(ended);
    r->comms[0] = NULL;
    for (int i = 0; i < 4; i++) {
        gather(r, comm, 64);
    }
    gather(r, comm, 1000);
    post_uneven(r, comm);
    start_channel(r, comm, 2);
    must(r, of_proc(r, "calls_blocking_allgather") == 7, "%d", (int)of_proc(r, "calls_blocking_allgather"));
    must(r, of_comm(r, comm, "calls_blocking_allgather") == 5, "of the communicator");
    must(r, of_comm(r, comm, "calls_nonblocking_allgatherv") == 1, "a post");
    must(r, of_comm(r, comm, "calls_nonblocking_alltoall") == 0, "a start is not a post");
    must(r, of_comm(r, comm, "calls_persistent_alltoall") == 2, "the starts of a channel that has ended");
    must(r, of_comm(r, comm, "setups") == 2 && of_proc(r, "setups") == 4, "set-ups");
    must(r, of_comm(r, comm, "variant_host_line") == 4 + 1 + 2, "small ones, and none of the set-up");
    must(r, of_comm(r, comm, "bytes_cores") == RANKS * (4 * 64 + 1000 + 2 * 8) + 6, "bytes of a communicator: %d",
         (int)of_comm(r, comm, "bytes_cores"));
    must(r, of_proc(r, "bytes_cores") - of_comm(r, comm, "bytes_cores") == RANKS * (10 + 20), "bytes of all");
    must(r, of_comm(r, comm, "plans_built") == 4 && of_comm(r, comm, "plans_reused") == 4, "plans: %d, %d",
         (int)of_comm(r, comm, "plans_built"), (int)of_comm(r, comm, "plans_reused"));
    must(r, of_comm(r, comm, "calls_below") == 0 && of_proc(r, "calls_messages") == 0, "all by coll/dma");
}

START_TEST(calls_are_counted)
{
    job_t job = threads_job(RANKS, count_calls);

    job.ncomms = 3;
    job.own_counters = true;
    job.params.variant[0] = '\0';
    job.params.measure = 0;
    threads_run(&job);
}
END_TEST

/* A communicator that is not served: the calls that go to the next module, and those that messages carry out. */
static void step_aside(rank_t *r)
{
    dma_comm_t *comm = r->comms[0];

    must(r, dma_comm_prepare(comm) == DMA_UNSUPPORTED, "served");
    dma_comm_count_below(comm, DMA_FORM_BLOCKING, DMA_ALLTOALLV);
    post_uneven(r, comm);
    must(r, of_comm(r, comm, "calls_below") == 1 && of_comm(r, comm, "calls_blocking_alltoallv") == 1, "below");
    must(r, of_comm(r, comm, "calls_messages") == 1 && of_comm(r, comm, "bytes_cores") == 0, "messages");
}

START_TEST(calls_aside_are_counted)
{
    job_t job = threads_job(RANKS, step_aside);

    job.own_counters = true;
    job.params.arena_bytes = 0;
    threads_run(&job);
}
END_TEST

static void count_alone(rank_t *r)
{
    char a[100], b[100];
    dma_side_t send = data_buffer(a, 100), recv = data_buffer(b, 100);

    threads_prepare(r, r->comms[0]);
    must(r, data_allgather(r->comms[0], &send, &recv) == DMA_OK, "a gather");
    must(r, of_proc(r, "calls_self") == 1 && of_proc(r, "bytes_cores") == 100, "alone");
}

START_TEST(calls_of_one_rank_are_counted)
{
    job_t job = threads_job(1, count_alone);

    job.own_counters = true;
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("counters");

    unit_test(suite, lists_have_room, 10);
    unit_test(suite, names_are_unique, 10);
    unit_test(suite, forms_have_the_order_of_the_operations, 10);
    unit_test(suite, operations_are_those_of_mpi, 10);
    unit_test(suite, calls_are_counted, 30);
    unit_test(suite, calls_aside_are_counted, 30);
    unit_test(suite, calls_of_one_rank_are_counted, 30);
    return unit_main(suite);
}
