/*
 * Blocks that are read at the address that their owner publishes (host_reach): which rank waits for which, and memory
 * that cannot be read, or cannot be read any more.
 */
#include <check.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "dma/plan.h"
#include "libthreads.h"
#include "libunit.h"

/* ---- two ranks in one thread ---- */

#define LARGE 3000000
#define SMALL 200
#define APART (LARGE + 1) /* from block to block */

typedef struct duo {
    group_t *group;
    dma_proc_t *proc[2];
    dma_comm_t *comm[2];
    dma_task_t *task[2];
    char *send[2], *recv[2];
    int counts[2][2]; /* of the sender, by receiver */
} duo_t;

/* Posts a call of one rank. It receives what [1 - r] sends. */
static void post(duo_t *d, int r)
{
    static const int displs[] = {0, APART}; /* read when the call is posted */
    int takes[] = {d->counts[0][r], d->counts[1][r]};
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(d->send[r], 0), .recv = data_buffer(d->recv[r], 0)};

    call.send.counts = d->counts[r];
    call.recv.counts = takes;
    call.send.displs = call.recv.displs = displs;
    ck_assert_int_eq(task_post(d->comm[r], &call, NULL, NULL, &d->task[r]), DMA_OK);
}

static void turns(duo_t *d, int r, int n)
{
    for (int i = 0; i < n; i++) {
        dma_proc_progress(d->proc[r]);
    }
}

static void settle(duo_t *d)
{
    for (int i = 0; i < 100000 && (dma_task_test(d->task[0]) == DMA_AGAIN || dma_task_test(d->task[1]) == DMA_AGAIN);
         i++) {
        turns(d, i % 2, 1);
    }
}

static void free_tasks(duo_t *d)
{
    task_free(d->task[0]);
    task_free(d->task[1]);
}

static void fill(duo_t *d, uint64_t tag, int to_0, int to_1)
{
    for (int r = 0; r < 2; r++) {
        d->counts[r][0] = to_0;
        d->counts[r][1] = to_1;
        memset(d->recv[r], 0, 2 * (size_t)APART);
        for (int p = 0; p < 2; p++) {
            data_fill((uint8_t *)d->send[r] + p * APART, tag + (uint64_t)p, r, (size_t)d->counts[r][p]);
        }
    }
}

static void check_received(const duo_t *d, uint64_t tag, int r)
{
    for (int p = 0; p < 2; p++) {
        int i = 0;

        while (i < d->counts[p][r] &&
               (uint8_t)d->recv[r][p * APART + i] == data_byte(tag + (uint64_t)r, p, (uint64_t)i)) {
            i++;
        }
        ck_assert_msg(i == d->counts[p][r], "rank %d, from %d, byte %d", r, p, i);
        ck_assert_int_eq(d->recv[r][p * APART + d->counts[p][r]], 0);
    }
}

static duo_t duo_begin(void)
{
    duo_t d = {.group = group_create(2, unit_seed(), 0)};

    for (int r = 0; r < 2; r++) {
        dma_proc_config_t proc = {.host = &threads_host, .routes = dma_routes};
        dma_comm_config_t comm = {.handle = group_handle(d.group, r), .rank = r, .nranks = 2, .text = "duo"};

        dma_params_default(&proc.params);
        ck_assert_int_eq(dma_proc_create(&proc, &d.proc[r]), DMA_OK);
        ck_assert_int_eq(dma_comm_create(d.proc[r], &comm, &d.comm[r]), DMA_OK);
        d.send[r] = malloc(2 * (size_t)APART);
        d.recv[r] = malloc(2 * (size_t)APART);
    }
    fill(&d, 1, 8, 8);
    post(&d, 0);
    post(&d, 1);
    settle(&d);
    free_tasks(&d);
    d.comm[0]->forced = d.comm[1]->forced = dma_variant_find("host_reach");
    dma_plan_cache_forget_choices(&d.comm[0]->plans);
    dma_plan_cache_forget_choices(&d.comm[1]->plans);
    return d;
}

static void duo_end(duo_t *d)
{
    for (int r = 0; r < 2; r++) {
        dma_comm_destroy(d->comm[r]);
        free(d->send[r]);
        free(d->recv[r]);
    }
    for (int r = 0; r < 2; r++) {
        dma_proc_destroy(d->proc[r]);
    }
    group_destroy(d->group);
}

/* A rank leaves when its block has been read. A rank with small blocks does not wait for a second synchronisation. */
START_TEST(owner_waits_for_its_reader)
{
    duo_t d = duo_begin();

    for (uint64_t tag = 10; tag < 30; tag += 10) {
        fill(&d, tag, SMALL, LARGE);
        post(&d, 1);
        post(&d, 0);
        turns(&d, 0, 100);
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_AGAIN); /* rank 1 has had no turn since rank 0 entered */
        check_received(&d, tag, 0);
        settle(&d);
        check_received(&d, tag, 1);
        free_tasks(&d);
        fill(&d, tag, LARGE, SMALL);
        post(&d, 1);
        post(&d, 0);
        turns(&d, 0, 100);
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_OK); /* what it sent was small */
        settle(&d);
        check_received(&d, tag, 0);
        check_received(&d, tag, 1);
        free_tasks(&d);
    }
    duo_end(&d);
}
END_TEST

/* In an all-to-all-v, the programs of pairs whose blocks go through slots have no turn: they would be most of a
 * small call. */
START_TEST(heads_run_alone)
{
    duo_t d = duo_begin();

    for (int i = 0; i < 3; i++) {
        fill(&d, 7, i == 2 ? LARGE : 8, i == 1 ? LARGE : 8);
        post(&d, 0);
        turns(&d, 0, 2);
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_AGAIN);
        ck_assert_uint_eq(d.task[0]->run.live, i ? 2 : 1);
        post(&d, 1);
        settle(&d);
        check_received(&d, 7, 0);
        check_received(&d, 7, 1);
        free_tasks(&d);
    }
    duo_end(&d);
}
END_TEST

/* One turn reads one piece of 1 MiB, so that others have turns in between. */
START_TEST(pieces)
{
    duo_t d = duo_begin();

    fill(&d, 3, LARGE, SMALL);
    post(&d, 1);
    post(&d, 0);
    for (int i = 1; i < 3; i++) {
        ck_assert_int_eq(dma_task_test(d.task[0]), DMA_AGAIN);
        turns(&d, 0, 1);
    }
    ck_assert_int_eq(dma_task_test(d.task[0]), DMA_OK);
    settle(&d);
    check_received(&d, 3, 0);
    free_tasks(&d);
    duo_end(&d);
}
END_TEST

/* After a failure a rank may reuse its buffer: what is read from it then is not a result. */
START_TEST(owner_fails)
{
    duo_t d = duo_begin();

    fill(&d, 5, LARGE, SMALL); /* rank 0 waits for nothing else */
    post(&d, 1);
    dma_comm_lock(d.comm[1]);
    dma_comm_fail(d.comm[1], DMA_ERR_NOMEM, "a test");
    dma_comm_unlock(d.comm[1]);
    ck_assert_int_eq(dma_task_test(d.task[1]), DMA_ERR_NOMEM);
    memset(d.send[1], 0, 2 * (size_t)APART);
    post(&d, 0);
    settle(&d);
    ck_assert_int_eq(dma_task_test(d.task[0]), DMA_ERR_NOMEM);
    free_tasks(&d);
    duo_end(&d);
}
END_TEST

/* ---- memory that cannot be read ---- */

enum { MOST_RANKS = 8, ROOM = 1100001 };

static int large; /* read in more than one piece, if it is read */

static int bytes_of(uint64_t tag, int from, int to)
{
    static const int sizes[] = {0, 100, 20000, 300000, 70000};

    if (tag >= 15) { /* more chunks than the ring has buffers after its end, then some chunks into it */
        return tag < 21 ? large : 8000;
    }
    return sizes[(tag * 3 + (uint64_t)from * 2 + (uint64_t)to) % 5];
}

static void exchange(rank_t *r, uint64_t tag)
{
    uint8_t *send = malloc((size_t)r->n * ROOM), *recv = calloc((size_t)r->n, ROOM);
    int gives[MOST_RANKS], takes[MOST_RANKS], displs[MOST_RANKS];
    dma_call_t call = {.coll = DMA_ALLTOALLV, .send = data_buffer(send, 0), .recv = data_buffer(recv, 0)};

    for (int p = 0; p < r->n; p++) {
        gives[p] = bytes_of(tag, r->rank, p);
        takes[p] = bytes_of(tag, p, r->rank);
        displs[p] = p * ROOM;
        data_fill(send + displs[p], 10 * tag + (uint64_t)p, r->rank, (size_t)gives[p]);
    }
    call.send.counts = gives;
    call.recv.counts = takes;
    call.send.displs = call.recv.displs = displs;
    must(r, dma_comm_run(r->comms[0], &call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    memset(send, 0, (size_t)r->n * ROOM);
    for (int p = 0; p < r->n; p++) {
        size_t i = data_wrong(recv + displs[p], 10 * tag + (uint64_t)r->rank, p, (size_t)takes[p]);

        must(r, i == (size_t)takes[p], "call %d, from %d, byte %zu of %d", (int)tag, p, i, takes[p]);
        must(r, recv[displs[p] + takes[p]] == 0, "written beyond a block");
    }
    free(send);
    free(recv);
}

static void exchanges(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 0; tag < 23; tag++) {
        exchange(r, tag);
    }
}

/* Reads fail from number n on, or read n alone fails. What cannot be read comes through shared memory, and each
 * rank reports it once. */
START_TEST(refused)
{
    fail_cross_once = _i;
    for (int n = 2; n < 5; n++) {
        for (int good = 0; good < 12; good += 3) {
            job_t job = threads_job(n, exchanges);

            snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
            job.params.chunk_bytes = 16384;
            large = 300000;
            fail_cross_after = n * (n - 1) + good; /* the probes of the set-up succeed */
            threads_run(&job);
            fail_cross_after = -1;
            ck_assert_int_ge(reports_count("refused"), 1);
            ck_assert_int_le(reports_count("refused"), n);
            ck_assert(!_i || reports_count("refused") == 1);
            ck_assert_int_eq(reports_count("refusals"), n);
            ck_assert_int_ge(reports_count("forced"), 1); /* no rank tries it again */
        }
    }
}
END_TEST

START_TEST(not_refused)
{
    job_t job = threads_job(3, exchanges);

    snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
    job.params.chunk_depth = 2;   /* rings of four buffers, */
    job.params.slot_bytes = 4096; /* and blocks that go through them */
    large = ROOM - 1;
    threads_run(&job);
    ck_assert_int_eq(reports_count("refused"), 0);
    ck_assert_int_eq(reports_count("forced"), 0);
}
END_TEST

/* Persistent all-gathers of blocks that are too large for slots. */
static void note(void *ended, dma_status_t status)
{
    *(int *)ended += status == DMA_OK ? 1 : 100;
}

static void starts(rank_t *r)
{
    enum { BYTES = 100000 };
    size_t all = (size_t)r->n * BYTES;
    uint8_t *send = malloc(BYTES), *recv = malloc(all);
    dma_call_t call = {.coll = DMA_ALLGATHER, .send = data_buffer(send, BYTES), .recv = data_buffer(recv, BYTES)};
    dma_channel_t *channel;
    int ended = 0;

    threads_prepare(r, r->comms[0]);
    must(r, dma_channel_create(r->comms[0], &call, note, &ended, &channel) == DMA_OK, "channel");
    for (int start = 0; start < 14; start++) {
        data_fill(send, (uint64_t)start, r->rank, BYTES);
        memset(recv, 0, all);
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
        while (ended == start) {
            dma_proc_progress(r->proc);
            sched_yield();
        }
        must(r, ended == start + 1, "start %d has failed", start);
        data_check(r, recv, (uint64_t)start, BYTES);
    }
    dma_channel_destroy(channel);
    free(send);
    free(recv);
}

/* In a channel, with little memory. Reading is one of its ways too, and can be refused. */
START_TEST(persistent)
{
    for (int n = 2; n < 7; n += 4) {
        job_t job = threads_job(n, starts);

        snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
        fail_cross_after = _i ? 2 * n * (n - 1) + n : -1; /* the probes of both set-ups succeed */
        threads_run(&job);
        fail_cross_after = -1;
        ck_assert(_i ? reports_count("forced") >= 1 : !reports_count("forced")); /* the last starts */
        ck_assert(_i ? reports_count("refused") >= 1 : !reports_count("refused"));
    }
}
END_TEST

/* A channel is made while a call still runs on some ranks that shows all of them that they cannot read each other. */
static void channel_beside_refusal(rank_t *r)
{
    enum { BYTES = 100000, LONG = 6000000 };
    size_t all = (size_t)r->n * BYTES;
    uint8_t *send = malloc(all), *recv = malloc(all), *out = malloc(LONG), *in = malloc(LONG + 3 * 1000);
    dma_call_t call = {.coll = DMA_ALLTOALL, .send = data_buffer(send, BYTES), .recv = data_buffer(recv, BYTES)};
    dma_call_t longer = {.coll = DMA_ALLTOALLV, .send = data_buffer(out, 0), .recv = data_buffer(in, 0)};
    int gives[3] = {100, r->rank == 2 ? LONG : 100, 100}, takes[3] = {100, 100, r->rank == 1 ? LONG : 100};
    int from[3] = {0}, to[3] = {0, 1000, 2000};
    dma_channel_t *channel;
    dma_task_t *task;
    int ended = 0;

    threads_prepare(r, r->comms[0]);
    exchange(r, 15); /* a rank is refused */
    longer.send.counts = gives;
    longer.recv.counts = takes;
    longer.send.displs = from;
    longer.recv.displs = to;
    must(r, task_post(r->comms[0], &longer, NULL, NULL, &task) == DMA_OK, "post");
    threads_barrier(r);
    for (int i = 0; i < 100000 && r->rank == 0 && dma_task_test(task) == DMA_AGAIN; i++) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
    threads_barrier(r);
    must(r, (dma_task_test(task) == DMA_AGAIN) == (r->rank > 0), "task %d", (int)dma_task_test(task));
    r->comms[0]->forced = -1; /* a small call is not streamed */
    if (r->rank == 1) {
        usleep(200000); /* the others are in the call that makes the channel */
    }
    must(r, dma_channel_create(r->comms[0], &call, note, &ended, &channel) == DMA_OK, "channel");
    (*(dma_comm_t **)(void *)channel)->forced = dma_variant_find("host_reach"); /* as the cost model may choose */
    while (dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
    memset(send, r->rank + 1, all);
    must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
    for (int i = 0; i < 100000 && !ended; i++) {
        dma_proc_progress(r->proc);
        sched_yield();
        usleep(20);
    }
    must(r, ended == 1, "the start has not ended");
    for (size_t i = 0; i < all; i++) {
        must(r, recv[i] == i / BYTES + 1, "byte %zu", i);
    }
    dma_channel_destroy(channel);
    task_free(task);
    free(send);
    free(recv);
    free(out);
    free(in);
}

START_TEST(channel_after_refusal)
{
    job_t job = threads_job(3, channel_beside_refusal);

    snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
    large = 300000;
    fail_cross_once = 1;
    fail_cross_after = 6;
    job.delay_us = 0;
    threads_run(&job);
    fail_cross_after = -1;
    fail_cross_once = 0;
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reach");

    unit_test(suite, owner_waits_for_its_reader, 10);
    unit_test(suite, heads_run_alone, 10);
    unit_test(suite, pieces, 10);
    unit_test(suite, owner_fails, 10);
    unit_loop(suite, refused, 0, 2, 20);
    unit_test(suite, not_refused, 10);
    unit_loop(suite, persistent, 0, 2, 10);
    unit_test(suite, channel_after_refusal, 30);
    return unit_main(suite);
}
