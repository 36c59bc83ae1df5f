/*
 * Communicators over several nodes: whichever rank fails, and whatever it is doing, the other ranks are told. Ranks
 * are threads, the network is memory, and allocations of one rank fail.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "libpart.h"
#include "libunit.h"
#include "libwire.h"

#define MOST_ALLOCATIONS 400 /* of a set-up */

/* ---- memory that is refused ---- */

static _Thread_local int left = -1; /* allocations of this thread's rank until one fails; < 0: none fails */
static _Thread_local bool foreign;  /* the rank is in the host or in the network, not in the core */

static bool refused(void)
{
    return !foreign && left >= 0 && left-- == 0;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return refused() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return refused() ? NULL : __real_calloc(n, bytes);
}

/* A call of the host or of the network. */
#define ABROAD(call)                                                                                                   \
    foreign = true;                                                                                                    \
    dma_status_t status = (call);                                                                                      \
    foreign = false;                                                                                                   \
    return status

static dma_status_t host_isend(void *comm, const void *buf, size_t bytes, int peer, int tag, void **req)
{
    ABROAD(threads_host.isend(comm, buf, bytes, peer, tag, req));
}

static dma_status_t host_irecv(void *comm, void *buf, size_t bytes, int peer, int tag, void **req)
{
    ABROAD(threads_host.irecv(comm, buf, bytes, peer, tag, req));
}

static dma_status_t net_join(void *net, uint32_t comm, uint32_t owner)
{
    ABROAD(wire_threads.comm_register(net, comm, owner));
}

static dma_status_t net_ask(void *comm, void *buf, size_t bytes, int rank, void **req)
{
    ABROAD(wire_threads.address_recv(comm, buf, bytes, rank, req));
}

static dma_status_t net_offer(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    ABROAD(wire_threads.address_send(comm, buf, bytes, rank, req));
}

static dma_status_t net_isend(void *net, void *peer, const dma_net_tag_t *tag, const void *buf, size_t bytes,
                              void **req)
{
    ABROAD(wire_threads.isend(net, peer, tag, buf, bytes, req));
}

static dma_status_t net_irecv(void *net, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req)
{
    ABROAD(wire_threads.irecv(net, peer, tag, buf, bytes, req));
}

static dma_host_t host;
static dma_net_ops_t wire;

static void feed_others(void)
{
    host = threads_host;
    host.isend = host_isend;
    host.irecv = host_irecv;
    wire = wire_threads;
    wire.comm_register = net_join;
    wire.address_recv = net_ask;
    wire.address_send = net_offer;
    wire.isend = net_isend;
    wire.irecv = net_irecv;
}

/* Messages that nobody waits for keep their memory, because messages of the pml cannot be cancelled. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:dma_cluster_connect_peer\n"
           "leak:dma_cluster_alloc_neighbors\n"
           "leak:dma_bootstrap_begin\n"
           "leak:thread_isend\n"
           "leak:thread_irecv\n";
}

/* ---- where ranks are ---- */

static const struct {
    int n;
    const int *firsts; /* NULL: on one node */
} shapes[] = {{4, NULL}, {4, part_alone}, {6, part_of_six}, {6, part_in_turn}};

#define SHAPES 4

static int shape; /* of the job */

static job_t job_of(void (*body)(rank_t *))
{
    job_t job = shapes[shape].firsts ? part_job(shapes[shape].n, shapes[shape].firsts, body, "auto")
                                     : threads_job(shapes[shape].n, body);

    job.ncomms = shapes[shape].firsts ? 2 : 1;
    return job;
}

static void join_in(rank_t *r, part_t *p)
{
    if (shapes[shape].firsts) {
        part_open(r, p, 100);
    } else {
        *p = (part_t){
            .comm = threads_comm(r, 0), .send = malloc(100 * (size_t)r->n), .recv = malloc(100 * (size_t)r->n)};
    }
}

static void prepare(rank_t *r, part_t *p)
{
    join_in(r, p);
    threads_prepare(r, p->comm);
}

/* ---- channels ---- */

/* Rank 0 has failed, and the others create a channel, some of them before they are told. */
static void channel_after_failure(rank_t *r)
{
    dma_channel_t *channel = NULL;
    _Atomic int ended = 0;
    dma_status_t status;
    dma_call_t call;
    part_t p;

    prepare(r, &p);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    if (r->rank == 0) {
        dma_call_t bad = call;

        bad.send = data_buffer(p.send, 50);
        must(r, dma_comm_run(p.comm, &bad) == DMA_ERR_TRUNCATE, "no error");
    }
    threads_barrier(r);
    status = dma_channel_create(p.comm, &call, part_count, (void *)&ended, &channel);
    must(r, status == DMA_ERR_TRUNCATE, "ended with %s", dma_status_name(status));
    part_close(&p);
}

START_TEST(a_channel_that_one_does_not_come_to)
{
    job_t job;

    shape = _i;
    job = job_of(channel_after_failure);
    part_run(&job);
}
END_TEST

/* Rank 1 has no memory for something that a channel needs. The others do not wait for it, neither in the set-up nor
 * in a start. */
static int nth;
static _Atomic int without; /* ranks of the channel */
static _Atomic bool enough; /* a channel needs less than that */

static void channel_without_memory(rank_t *r)
{
    dma_channel_t *channel = NULL;
    _Atomic int ended = 0;
    dma_status_t status;
    dma_call_t call;
    part_t p;

    r->proc->host = &host;
    prepare(r, &p);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    left = r->rank == 1 ? nth : -1;
    status = dma_channel_create(p.comm, &call, part_count, (void *)&ended, &channel);
    if (r->rank == 1) {
        enough = left >= 0;
        left = -1;
    }
    without += status != DMA_OK;
    if (status == DMA_OK && (status = dma_channel_start(channel, NULL)) == DMA_OK) {
        while (!ended) {
            dma_proc_progress(r->proc);
            sched_yield();
        }
    }
    threads_barrier(r);
    must(r, (status == DMA_OK && ended == 1) == !without, "allocation %d: %s, %d have no channel", nth,
         status != DMA_OK ? dma_status_name(status)
         : ended == 1     ? "it has ended well"
                          : "it has failed",
         without);
    if (channel) {
        dma_channel_destroy(channel);
    }
    part_close(&p);
}

START_TEST(a_channel_that_one_cannot_make)
{
    int missed = 0;

    shape = _i;
    enough = false;
    feed_others();
    for (nth = 0; !enough && nth < MOST_ALLOCATIONS; nth++) {
        job_t job = job_of(channel_without_memory);

        without = 0;
        job.net_ops = shapes[shape].firsts ? &wire : NULL;
        part_run(&job);
        missed += without > 0;
    }
    ck_assert(enough);
    ck_assert_int_gt(missed, 2); /* the channel does need memory */
}
END_TEST

/* ---- ranks without a call ---- */

/* Only ranks 0 and 2 have data for each other, and rank 0 fails before it connects to rank 2. Their neighbors have
 * done their part at once, and run progress for something else. */
static void sparse(rank_t *r)
{
    bool talks = r->rank % 2 == 0;
    int sent[4], received[4], displs[4];
    dma_call_t call = {.coll = DMA_ALLTOALLV};
    dma_status_t status;
    part_t p;

    prepare(r, &p);
    for (int i = 0; i < 4; i++) {
        sent[i] = received[i] = talks && i % 2 == 0 ? 8 : 0;
        displs[i] = 8 * i;
    }
    sent[r->rank] = r->rank == 0 ? 4 : received[r->rank]; /* to itself: it does not receive that */
    call.send = data_buffer(p.send, 0);
    call.recv = data_buffer(p.recv, 0);
    call.send.counts = sent;
    call.recv.counts = received;
    call.send.displs = call.recv.displs = displs;
    while (r->rank == 2 && r->job->reached < 3) {
        sched_yield();
    }
    status = dma_comm_run(p.comm, &call);
    must(r, status == (talks ? DMA_ERR_TRUNCATE : DMA_OK), "ended with %s", dma_status_name(status));
    r->job->reached++;
    while (r->job->reached < 4 || (!talks && dma_comm_state(p.comm) == DMA_COMM_READY)) {
        dma_proc_progress(r->proc);
        dma_proc_poll_notices(r->proc);
        sched_yield();
    }
    must(r, dma_comm_run(p.comm, &call) == DMA_ERR_TRUNCATE, "it goes on");
    part_close(&p);
}

START_TEST(through_ranks_without_a_call)
{
    job_t job;

    shape = 1;
    job = job_of(sparse);
    part_run(&job);
}
END_TEST

/* ---- calls that are lost ---- */

/* Rank 1's second call is lost, before the set-up has ended or later. Its third call is not taken for the second. */
static bool early;

static void loses_a_call(rank_t *r)
{
    dma_status_t status;
    dma_call_t call;
    part_t p;

    (early ? join_in : prepare)(r, &p);
    for (int i = 0; i < 3; i++) {
        dma_task_t *task;

        call = part_call(r, &p, DMA_ALLGATHER, false, 100, 100 * (uint64_t)i);
        if (r->rank == 1 && i == 1) {
            dma_comm_fail_call(p.comm, DMA_ERR_NOMEM);
            continue;
        }
        status = task_post(p.comm, &call, NULL, NULL, &task);
        while (status == DMA_OK && (status = dma_task_test(task)) == DMA_AGAIN && !(early && i == 0)) {
            dma_proc_progress(r->proc);
            sched_yield();
            status = DMA_OK;
        }
        if (status == DMA_AGAIN) { /* it runs beside the others */
            threads_keep(r, task);
        } else if (task) {
            task_free(task);
        }
        must(r, (early || i) ? status < 0 || status == DMA_AGAIN : status == DMA_OK, "call %d ended with %s", i,
             dma_status_name(status));
        if (!early && i == 0) {
            threads_barrier(r); /* all have received it */
        }
        must(r, i < 2 || status == DMA_ERR_NOMEM, "the last call ended with %s", dma_status_name(status));
    }
    while (dma_comm_state(p.comm) != DMA_COMM_POISONED) { /* the others wait in the set-up */
        dma_proc_progress(r->proc);
        sched_yield();
    }
    part_close(&p);
}

START_TEST(a_call_that_is_lost)
{
    job_t job;

    shape = _i / 2;
    early = _i % 2;
    job = job_of(loses_a_call);
    part_run(&job);
}
END_TEST

/* ---- alarms ---- */

/* Rank 0 has memory for exactly as many requests as it has. Only it counts them. */
static unsigned spared;

static dma_status_t isend_without_memory(void *net, void *peer, const dma_net_tag_t *tag, const void *buf, size_t bytes,
                                         void **req)
{
    if (wire_rank() == 0 && spared-- == 0) {
        spared = 0;
        return DMA_ERR_NOMEM;
    }
    return wire_threads.isend(net, peer, tag, buf, bytes, req);
}

static void cancel_spares(void *net, void *req)
{
    if (wire_rank() == 0) {
        spared++;
    }
    wire_threads.cancel(net, req);
}

static void fails_without_memory(rank_t *r)
{
    dma_status_t status;
    dma_call_t call;
    part_t p;

    prepare(r, &p);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    status = dma_comm_run(p.comm, &call);
    must(r, status == DMA_ERR_NOMEM, "ended with %s", dma_status_name(status));
    part_close(&p);
}

START_TEST(an_alarm_without_memory)
{
    job_t job;

    shape = _i;
    job = job_of(fails_without_memory);
    wire = wire_threads;
    wire.isend = isend_without_memory;
    wire.cancel = cancel_spares;
    job.net_ops = &wire;
    spared = 0;
    part_run(&job);
}
END_TEST

/* ---- set-up ---- */

static _Thread_local int held = -1; /* `left` allocations succeed, from the first message of the set-up on */

static void counts_from_here(void *net, dma_net_place_t *place)
{
    left = left < 0 ? held : left; /* the next allocation is that of the first message */
    held = -1;
    wire_threads.get_place(net, place);
}

/* Rank 1 lacks memory in the middle of its set-up: all ranks end in the same state. */
static _Atomic int served;

static void set_up_without_memory(rank_t *r)
{
    dma_status_t status;
    part_t p;

    r->proc->host = &host;
    join_in(r, &p);
    held = r->rank == 1 ? nth : -1;
    status = dma_comm_prepare(p.comm);
    if (r->rank == 1) {
        enough = left >= 0;
        left = -1;
    }
    must(r, status == DMA_OK || status == DMA_UNSUPPORTED, "allocation %d: ended with %s", nth,
         dma_status_name(status));
    served += status == DMA_OK;
    threads_barrier(r);
    must(r, served == (status == DMA_OK ? r->n : 0), "allocation %d: %d ranks are served", nth, served);
    part_close(&p);
}

START_TEST(a_set_up_without_memory)
{
    int aside = 0;

    shape = _i < SHAPES ? _i : _i - SHAPES + 1;
    wire_address_bytes = _i < SHAPES ? 0 : WIRE_LONG_ADDRESS;
    enough = false;
    feed_others();
    wire.get_place = counts_from_here;
    for (nth = 1; !enough && nth < MOST_ALLOCATIONS; nth++) {
        job_t job = job_of(set_up_without_memory);

        served = 0;
        job.net_ops = &wire;
        part_run(&job);
        aside += !served;
    }
    ck_assert(enough);
    ck_assert_int_gt(aside, 4); /* it does need memory */
}
END_TEST

/* The network of rank 1 has no memory. */
static dma_status_t join_fails = DMA_ERR_NOMEM;

static dma_status_t no_join(void *net, uint32_t comm, uint32_t owner)
{
    return wire_rank() == 1 ? join_fails : wire_threads.comm_register(net, comm, owner);
}

static void not_served(rank_t *r)
{
    part_t p;

    join_in(r, &p);
    must(r, dma_comm_prepare(p.comm) == DMA_UNSUPPORTED, "served");
    part_close(&p);
}

START_TEST(a_network_without_memory)
{
    job_t job;

    shape = _i;
    job = job_of(not_served);
    wire = wire_threads;
    wire.comm_register = no_join;
    job.net_ops = &wire;
    join_fails = DMA_ERR_NOMEM;
    part_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arena_system), 0);
    join_fails = DMA_ERR_ARG; /* as if this rank had another map of the nodes */
    part_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_nodes_differ), 0);
}
END_TEST

/* ---- exchanges of addresses ---- */

/* Messages of the pml call back through progress. */
static dma_status_t offer_in_progress(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    for (int i = 0; i < 200; i++) {
        threads_host.progress();
    }
    return wire_threads.address_send(comm, buf, bytes, rank, req);
}

/* A call among neighbors waits for rank 1, while a start of a channel connects to ranks that are farther away. */
static void two_at_once(rank_t *r)
{
    size_t bytes = 100 * (size_t)r->n;
    dma_channel_t *channel;
    _Atomic int ended = 0;
    dma_call_t call, start;
    dma_task_t *task;
    part_t p, q;

    prepare(r, &p);
    q = p;
    q.send = malloc(bytes);
    q.recv = malloc(bytes);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    start = part_call(r, &q, DMA_ALLTOALL, false, 100, 100);
    must(r, dma_channel_create(p.comm, &start, part_count, (void *)&ended, &channel) == DMA_OK, "channel");
    if (r->rank == 1) {
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
    }
    must(r, task_post(p.comm, &call, NULL, NULL, &task) == DMA_OK, "post");
    if (r->rank != 1) {
        must(r, dma_channel_start(channel, NULL) == DMA_OK, "start");
    }
    while (!ended || dma_task_test(task) == DMA_AGAIN) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
    part_check(r, &p, DMA_ALLGATHER, 100, 1);
    part_check(r, &q, DMA_ALLTOALL, 100, 100);
    task_free(task);
    dma_channel_destroy(channel);
    free(q.send);
    free(q.recv);
    part_close(&p);
}

START_TEST(introduced_out_of_progress)
{
    job_t job;

    shape = _i;
    job = job_of(two_at_once);
    wire = wire_threads;
    wire.address_send = offer_in_progress;
    job.net_ops = &wire;
    snprintf(job.params.net_variant, sizeof(job.params.net_variant), "cluster_ring");
    wire_address_bytes = WIRE_LONG_ADDRESS;
    part_run(&job);
}
END_TEST

/* Ranks with short addresses know them since set-up, so no message is needed for a connection. */
static _Atomic int introductions;

static dma_status_t count_offer(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    introductions++;
    return wire_threads.address_send(comm, buf, bytes, rank, req);
}

START_TEST(introduced_in_set_up)
{
    job_t job;

    shape = 1;
    job = job_of(two_at_once);
    wire = wire_threads;
    wire.address_send = count_offer;
    job.net_ops = &wire;
    introductions = 0;
    wire_address_bytes = _i ? WIRE_LONG_ADDRESS : 0;
    part_run(&job);
    ck_assert_int_eq(introductions > 0, _i);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_told");

    unit_loop(suite, a_channel_that_one_does_not_come_to, 0, SHAPES, 10);
    unit_loop(suite, a_channel_that_one_cannot_make, 0, SHAPES, 30);
    unit_test(suite, through_ranks_without_a_call, 10);
    unit_loop(suite, a_call_that_is_lost, 0, 2 * SHAPES, 10);
    unit_loop(suite, an_alarm_without_memory, 1, SHAPES, 10);
    unit_loop(suite, a_set_up_without_memory, 1, 2 * SHAPES - 1, 30);
    unit_loop(suite, a_network_without_memory, 1, SHAPES, 10);
    unit_loop(suite, introduced_out_of_progress, 1, SHAPES, 10);
    unit_loop(suite, introduced_in_set_up, 0, 2, 10);
    return unit_main(suite);
}
