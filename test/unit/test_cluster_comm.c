/*
 * Communicators over several nodes. Ranks are threads, and the network is memory. Every algorithm between nodes runs
 * in the three forms of a call. Also: what all ranks see when one rank has failed.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dma/clock.h"
#include "libpart.h"
#include "libunit.h"
#include "libwire.h"
#include "plan/cluster/cluster.h"

static const size_t sizes[] = {1, 100, 5000};

/* Every form, several times. */
static void every_form(rank_t *r)
{
    part_t p;
    uint64_t tag = 1000;

    part_open(r, &p, 5000);
    threads_prepare(r, p.comm);
    for (int round = 0; round < 4; round++) {
        dma_coll_t coll = round & 1 ? DMA_ALLTOALL : DMA_ALLGATHER;
        bool in_place = round & 2;
        size_t bytes = sizes[round % 3];
        dma_call_t call = part_call(r, &p, coll, in_place, bytes, tag += 100);
        dma_channel_t *channel;
        dma_task_t *task;

        must(r, dma_comm_run(p.comm, &call) == DMA_OK, "blocking: %s", dma_comm_reason(p.comm));
        part_check(r, &p, coll, bytes, tag);
        call = part_call(r, &p, coll, in_place, bytes, tag += 100);
        must(r, task_post(p.comm, &call, NULL, NULL, &task) == DMA_OK, "post");
        while (dma_task_test(task) == DMA_AGAIN) {
            dma_proc_progress(r->proc);
            sched_yield();
        }
        must(r, dma_task_test(task) == DMA_OK, "non-blocking: %s", dma_comm_reason(p.comm));
        task_free(task);
        part_check(r, &p, coll, bytes, tag);
        if (round & 1) {
            _Atomic int ended = 0;

            call = part_call(r, &p, coll, in_place, bytes, tag += 100);
            must(r, dma_channel_create(p.comm, &call, part_count, (void *)&ended, &channel) == DMA_OK, "channel");
            must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
            while (!ended) {
                dma_proc_progress(r->proc);
                sched_yield();
            }
            must(r, ended == 1, "a channel has failed");
            part_check(r, &p, coll, bytes, tag);
            dma_channel_destroy(channel);
        }
    }
    part_close(&p);
}

START_TEST(forms)
{
    static const struct {
        int n;
        const int *firsts;
    } shapes[] = {{6, part_of_six}, {6, part_in_turn}, {4, part_alone}};
    const char *variant = dma_cluster_variants[_i] ? dma_cluster_variants[_i]->name : "auto";

    for (int s = _i % 3; s < 3; s += 2) { /* each algorithm on one or two shapes */
        job_t job = part_job(shapes[s].n, shapes[s].firsts, every_form, variant);

        part_run(&job);
    }
}
END_TEST

/* Rank 3 of six, on a node of its own, ends in its fifth call. The call fails on all others, whichever ranks they
 * exchange with. */
static void one_leaves(rank_t *r)
{
    dma_status_t status = DMA_OK;
    part_t p;

    part_open(r, &p, 100);
    threads_prepare(r, p.comm);
    for (int i = 0; i < 1000 && status == DMA_OK; i++) {
        dma_coll_t coll = i & 1 ? DMA_ALLTOALL : DMA_ALLGATHER;
        dma_call_t call = part_call(r, &p, coll, false, 100, (uint64_t)i * 100);

        if (r->rank == 3 && i == 4) {
            wire_leave(3);
            break;
        }
        status = dma_comm_run(p.comm, &call);
        if (status == DMA_OK) {
            part_check(r, &p, coll, 100, (uint64_t)i * 100);
        }
    }
    must(r, r->rank == 3 || status == DMA_ERR_PEER, "ended with %s", dma_status_name(status));
    if (r->rank != 3) {
        dma_call_t call = part_call(r, &p, DMA_ALLGATHER, false, 100, 7);

        must(r, strstr(dma_comm_reason(p.comm), "rank 3 has left"), "it says: %s", dma_comm_reason(p.comm));
        must(r, dma_comm_run(p.comm, &call) == DMA_ERR_PEER, "it stays failed");
    }
    part_close(&p);
}

START_TEST(a_rank_is_gone)
{
    const char *variant = dma_cluster_variants[_i]->name;
    job_t job = part_job(6, part_of_six, one_leaves, variant);

    part_run(&job);
    ck_assert_int_ge(reports_count("failed"), 5);
}
END_TEST

/* Ranks of different nodes send different numbers of bytes: the call fails on all. */
static void unequal(rank_t *r)
{
    part_t p;
    dma_call_t call;

    part_open(r, &p, 5000);
    threads_prepare(r, p.comm);
    call = part_call(r, &p, DMA_ALLTOALL, false, r->rank < 3 ? 200 : 300, 1);
    must(r, dma_comm_run(p.comm, &call) < 0, "no error");
    part_close(&p);
}

START_TEST(unequal_sizes)
{
    job_t job = part_job(6, part_of_six, unequal, "cluster_split");

    part_run(&job);
    ck_assert_ptr_null(strstr(reports_first("failed"), "a rank of")); /* the report names the operation */
}
END_TEST

/* An exchange of addresses is never answered, because the call fails first. Its record is kept for ever: messages
 * of the pml cannot be cancelled, and may still write to it. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_cluster_connect_peer\n"
           "leak:dma_cluster_alloc_neighbors";
}

/* Rank 0 has no memory for its first call. Every rank that enters this call later fails too, on every node. */
/* rank 0 notices it in a blocking call; otherwise in a non-blocking one, before the set-up has ended */
static bool blocks;

static void first_fails(rank_t *r)
{
    dma_status_t status;
    dma_call_t call;
    dma_task_t *task = NULL;
    part_t p;

    part_open(r, &p, 100);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    if (r->rank == 0) {
        call.send = data_buffer(p.send, 50);
    }
    if (blocks) {
        threads_prepare(r, p.comm);
        if (r->rank) {
            threads_barrier(r);
        }
        status = dma_comm_run(p.comm, &call);
        if (!r->rank) {
            threads_barrier(r);
        }
    } else {
        status = task_post(p.comm, &call, NULL, NULL, &task);
        while (status == DMA_OK && (status = dma_task_test(task)) == DMA_AGAIN) {
            dma_proc_progress(r->proc);
            sched_yield();
            status = DMA_OK;
        }
        task_free(task);
    }
    must(r, status == DMA_ERR_TRUNCATE, "ended with %s", dma_status_name(status));
    part_close(&p);
}

START_TEST(the_first_call_fails)
{
    static const int two[] = {0, 1}, pairs[] = {0, 0, 2, 2};
    static const struct {
        int n;
        const int *firsts;
    } shapes[] = {{2, two}, {4, pairs}, {6, part_of_six}, {6, part_in_turn}};
    job_t job = part_job(shapes[_i / 2].n, shapes[_i / 2].firsts, first_fails, "auto");

    blocks = _i % 2;
    part_run(&job);
}
END_TEST

/* A call fails while a peer has not entered it. A rank that gets the error owns its buffers again, and frees them. */
static void busy_elsewhere(rank_t *r)
{
    dma_status_t status;
    dma_call_t call;
    part_t p;

    part_open(r, &p, 5000);
    threads_prepare(r, p.comm);
    call = part_call(r, &p, DMA_ALLTOALL, false, r->rank == 2 ? 3000 : 5000, 1);
    if (r->rank == 1) {
        threads_barrier(r);
    }
    status = dma_comm_run(p.comm, &call);
    must(r, status < 0, "ended with %s", dma_status_name(status));
    must(r, !wire_holds(r->rank), "%u messages have its memory", wire_holds(r->rank));
    if (r->rank != 1) {
        threads_barrier(r);
    }
    part_close(&p);
}

START_TEST(an_error_gives_the_buffers_back)
{
    job_t job = part_job(3, part_alone, busy_elsewhere, "cluster_direct");

    wire_late();
    part_run(&job);
}
END_TEST

static dma_call_t alltoallv_of(const part_t *p, const int *sent, const int *received, const int *displs)
{
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(p->send, 0), .recv = data_buffer(p->recv, 0)};

    call.send.counts = sent;
    call.recv.counts = received;
    call.send.displs = call.recv.displs = displs;
    return call;
}

/* A rank that has done its part of the last call leaves, while others, which have everything that it had for them,
 * still wait. This is not a failure, unless the rank is lost. */
static bool lost;

static void leaves_early(rank_t *r)
{
    int counts[4], displs[4];
    dma_call_t call;
    dma_status_t status;
    part_t p;

    part_open(r, &p, 8);
    threads_prepare(r, p.comm);
    for (int i = 0; i < 4; i++) {
        counts[i] = (i ^ r->rank) == 2 && i & 1 ? 0 : 8; /* ranks 1 and 3 have nothing for each other */
        displs[i] = 8 * i;
    }
    call = alltoallv_of(&p, counts, counts, displs);
    memset(p.send, r->rank, 32);
    while (r->rank == 1 && !r->job->reached) {
        sched_yield();
    }
    status = dma_comm_run(p.comm, &call);
    /* rank 1 enters last, and may find all of its data there */
    must(r, status == (lost && r->rank % 2 == 0 ? DMA_ERR_PEER : DMA_OK) || (lost && r->rank == 1), "%s",
         dma_comm_reason(p.comm));
    for (int i = 0; !lost && i < 32; i++) {
        must(r, !counts[i / 8] || p.recv[i] == i / 8, "byte %d is wrong", i);
    }
    part_close(&p);
    if (r->rank == 3) {
        (lost ? wire_leave : wire_goodbye)(3);
        do {
            nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* meanwhile the others poll */
        } while (lost && reports_count("failed") < 2);
        r->job->reached = 1;
    }
}

START_TEST(a_rank_leaves_early)
{
    job_t job = part_job(4, part_alone, leaves_early, "cluster_direct");

    lost = _i;
    part_run(&job);
}
END_TEST

/* Rank 3 only sends to rank 1, which is no neighbor, and has left before rank 1 enters. The first message between the two
 * is there, so nothing has failed. If rank 3's host has failed, rank 1 cannot connect. */
static void sends_and_leaves(rank_t *r)
{
    int sent[4], received[4], displs[4];
    dma_call_t call;
    dma_status_t status;
    part_t p;

    part_open(r, &p, 8);
    threads_prepare(r, p.comm);
    for (int i = 0; i < 4; i++) {
        sent[i] = r->rank == 3 && i == 1 ? 8 : 0;
        received[i] = r->rank == 1 && i == 3 ? 8 : 0;
        displs[i] = 8 * i;
    }
    call = alltoallv_of(&p, sent, received, displs);
    memset(p.send, 3, 32);
    while (r->rank == 1 && r->job->reached < 3) {
        sched_yield();
    }
    status = dma_comm_run(p.comm, &call);
    must(r, status == (lost && r->rank == 1 ? DMA_ERR_PEER : DMA_OK), "%s", dma_comm_reason(p.comm));
    for (int i = 24; r->rank == 1 && !lost && i < 32; i++) {
        must(r, p.recv[i] == 3, "byte %d is wrong", i);
    }
    part_close(&p);
    while (r->rank == 3 && r->job->reached < 2) {
        sched_yield();
    }
    if (r->rank == 3) {
        (lost ? wire_leave : wire_goodbye)(3);
    }
    r->job->reached++;
}

START_TEST(a_rank_leaves_before_it_is_connected)
{
    job_t job = part_job(4, part_alone, sends_and_leaves, "cluster_direct");

    lost = _i;
    wire_eager();
    part_run(&job);
}
END_TEST

/* The call of one rank is so much smaller or larger that it has another algorithm, whose messages match nobody's.
 * Or it is another operation. The call fails on all ranks, also on that rank and the ranks of its node. */
static struct {
    int odd;
    dma_coll_t coll, odd_coll;
    size_t bytes, odd_bytes;
} quarrel;

static void quarrels(rank_t *r)
{
    bool odd = r->rank == quarrel.odd;
    dma_coll_t coll = odd ? quarrel.odd_coll : quarrel.coll;
    size_t bytes = odd ? quarrel.odd_bytes : quarrel.bytes;
    dma_status_t status;
    dma_call_t call;
    part_t p;

    part_open(r, &p, 200000);
    threads_prepare(r, p.comm);
    call = part_call(r, &p, coll, false, bytes, 1);
    status = dma_comm_run(p.comm, &call);
    must(r, status == DMA_ERR_TRUNCATE || status == DMA_ERR_MISMATCH, "ended with %s", dma_status_name(status));
    part_close(&p);
}

START_TEST(algorithms_that_never_meet)
{
    static const struct {
        dma_coll_t coll, odd_coll;
        size_t bytes, odd_bytes;
    } cases[] = {
        {DMA_ALLGATHER, DMA_ALLGATHER, 200000, 16}, {DMA_ALLGATHER, DMA_ALLGATHER, 16, 200000},
        {DMA_ALLTOALL, DMA_ALLTOALL, 200000, 16},   {DMA_ALLTOALL, DMA_ALLTOALL, 16, 200000},
        {DMA_ALLTOALL, DMA_ALLGATHER, 200000, 16},  {DMA_ALLGATHER, DMA_ALLTOALL, 64, 64},
    };
    static const int odds[] = {0, 3, 5};

    for (int k = 0; k < 3; k++) {
        job_t job = part_job(6, k == 2 ? part_in_turn : part_of_six, quarrels, "auto");

        quarrel.odd = odds[k];
        quarrel.coll = cases[_i].coll;
        quarrel.odd_coll = cases[_i].odd_coll;
        quarrel.bytes = cases[_i].bytes;
        quarrel.odd_bytes = cases[_i].odd_bytes;
        part_run(&job);
    }
}
END_TEST

/* Waiting is not an error, however often peers are told about it. On each node, one of the waiting ranks reports
 * which rank it waits for. On a busy machine, ranks may be late in the other calls, too. */
#define LATE_CALL "call 2 ("
typedef struct lateness {
    int n;
    const int *firsts;
    int late, nodes; /* the rank that is late; other nodes wait for it */
    const char *line;
} lateness_t;

static void late(rank_t *r)
{
    const lateness_t *l = r->job->arg;
    part_t p;

    part_open(r, &p, 100);
    threads_prepare(r, p.comm);
    for (int i = 0; i < 3; i++) {
        size_t bytes = 60 + 20 * (size_t)i; /* what is announced about one call says nothing about the next */
        dma_call_t call = part_call(r, &p, DMA_ALLGATHER, false, bytes, (uint64_t)i * 100);

        if (r->rank == l->late) {
            double until = dma_now() + 60;

            while (i == 1 && reports_with("late", LATE_CALL) < l->nodes &&
                   dma_now() < until) { /* they may reach it later */
                nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
            }
            nanosleep(&(struct timespec){.tv_sec = i == 1 ? 2 : 0, .tv_nsec = i == 0 ? 0 : 300000000}, NULL);
        }
        must(r, dma_comm_run(p.comm, &call) == DMA_OK, "call %d", i);
        part_check(r, &p, DMA_ALLGATHER, bytes, (uint64_t)i * 100);
    }
    part_close(&p);
}

START_TEST(a_rank_is_late)
{
    static const lateness_t cases[] = {
        {4, part_alone, 2, 3, "call 2 (messages) on several nodes for a message of rank 2"},
        {6, part_of_six, 3, 2, "all-gather, call 2 ("}};
    const lateness_t *l = &cases[_i];
    job_t job = part_job(l->n, l->firsts, late, "cluster_direct");

    job.arg = l;
    job.params.warn = 1;
    part_run(&job);
    ck_assert_int_eq(reports_with("late", LATE_CALL), l->nodes);
    ck_assert_int_ge(reports_with("late", l->line), 1);
}
END_TEST

/* A poll of the network may be a system call. A rank that waits for the network polls it in every turn. A rank that
 * waits for the ranks of its node polls it seldom, but not never. */
#define TURNS 800

static _Atomic unsigned network_looks[WIRE_RANKS];

static void count_looks(void *net)
{
    (void)net;
    network_looks[wire_rank()]++;
}

static void costs(rank_t *r)
{
    bool late = r->rank == 5, leads = r->rank != 1 && r->rank != 2;
    dma_call_t call;
    dma_task_t *task;
    unsigned before;
    part_t p;

    part_open(r, &p, 100);
    threads_prepare(r, p.comm);
    /* the first call makes all connections */
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    must(r, dma_comm_run(p.comm, &call) == DMA_OK, "first call: %s", dma_comm_reason(p.comm));
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 2);
    if (late) {
        threads_barrier(r);
    }
    must(r, task_post(p.comm, &call, NULL, NULL, &task) == DMA_OK, "post");
    r->job->reached += !late;
    for (int left = TURNS; !late && left; left -= r->job->reached == 5) { /* all are posted: what can go on does */
        dma_proc_progress(r->proc);
        sched_yield();
    }
    before = network_looks[r->rank];
    for (int i = 0; !late && i < TURNS; i++) {
        dma_proc_progress(r->proc);
    }
    before = network_looks[r->rank] - before;
    must(r, late || (leads ? before >= TURNS : before > 0 && before <= TURNS / 4), "%u looks in %d turns", before,
         TURNS);
    if (!late) {
        threads_barrier(r);
    }
    while (dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
    must(r, dma_task_test(task) == DMA_OK, "second call: %s", dma_comm_reason(p.comm));
    task_free(task);
    part_check(r, &p, DMA_ALLGATHER, 100, 2);
    part_close(&p);
}

START_TEST(what_a_wait_costs)
{
    dma_net_ops_t counted = wire_threads;
    job_t job = part_job(6, part_of_six, costs, "cluster_leader");

    counted.progress = count_looks;
    job.net_ops = &counted;
    part_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_comm");
    int variants = 0;

    while (dma_cluster_variants[variants]) {
        variants++;
    }
    unit_loop(suite, forms, 0, variants + 1, 60);
    unit_loop(suite, a_rank_is_gone, 0, variants, 60);
    unit_test(suite, unequal_sizes, 30);
    unit_loop(suite, algorithms_that_never_meet, 0, 6, 30);
    unit_loop(suite, a_rank_is_late, 0, 2, 30);
    unit_loop(suite, the_first_call_fails, 0, 8, 30);
    unit_test(suite, an_error_gives_the_buffers_back, 30);
    unit_loop(suite, a_rank_leaves_early, 0, 2, 30);
    unit_loop(suite, a_rank_leaves_before_it_is_connected, 0, 2, 30);
    unit_test(suite, what_a_wait_costs, 30);
    return unit_main(suite);
}
