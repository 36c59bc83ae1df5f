/*
 * Device memory between nodes. Ranks, devices and engines are threads, and the network is memory. The tests check the
 * data for every mixture of memory; that there are few slots; that copies go on while messages travel; that data
 * between ranks of one node goes from device to device; and what happens when a resource is missing or an operation
 * fails.
 */
#include <malloc.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"
#include "libwire.h"
#include "plan/cluster/cluster.h"

#define CHUNK 4096
#define PIECE (CLUSTER_CHUNKS * CHUNK)

/* ---- counters ---- */

static _Atomic long held, most_held; /* bytes that were taken and not returned */

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void __wrap_free(void *memory);

static void *hold(void *memory)
{
    long now = atomic_fetch_add(&held, (long)malloc_usable_size(memory)) + (long)malloc_usable_size(memory);
    long most = atomic_load(&most_held);

    while (now > most && !atomic_compare_exchange_weak(&most_held, &most, now)) {
    }
    return memory;
}

void *__wrap_malloc(size_t bytes)
{
    return hold(__real_malloc(bytes));
}

void *__wrap_calloc(size_t n, size_t bytes)
{
    return hold(__real_calloc(n, bytes));
}

void __wrap_free(void *memory)
{
    atomic_fetch_sub(&held, (long)malloc_usable_size(memory));
    __real_free(memory);
}

/* ---- jobs ---- */

static const int two_and_two[] = {0, 0, 2, 2}, of_six[] = {0, 0, 0, 3, 4, 4}, in_turn[] = {0, 1, 0, 1, 0},
                 alone[] = {0, 1, 2};

typedef struct shape {
    int n;
    const int *firsts;
} shape_t;

static const shape_t shapes[] = {{4, two_and_two}, {6, of_six}, {5, in_turn}, {3, alone}};
static const shape_t pair = {2, alone};

static const shape_t *shape; /* of the job */

static job_t relay_job(const shape_t *s, void (*body)(rank_t *), const char *variant)
{
    job_t job = call_job(s->n, body, NULL);

    shape = s;
    job.ncomms = 2;
    job.net_ops = &wire_threads;
    job.params.net_chunk_bytes = CHUNK;
    snprintf(job.params.net_variant, sizeof(job.params.net_variant), "%s", variant);
    return job;
}

static void run_job(job_t *job)
{
    call_run_job(job);
    wire_end();
}

static dma_comm_t *open_comm(rank_t *r)
{
    dma_comm_t *comm = wire_comm(r, shape->firsts[r->rank]);

    threads_prepare(r, comm);
    return comm;
}

static call_spec_t on_device(dma_coll_t coll, bool in_place, size_t bytes)
{
    return (call_spec_t){
        .coll = coll, .in_place = in_place, .elements = bytes, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
}

static void turn(rank_t *r)
{
    dma_proc_progress(r->proc);
    sched_yield();
}

/* ---- data ---- */

/* Each rank draws its sides in each call. Sometimes all ranks have device memory. */
static void any_memory(rank_t *r)
{
    static const size_t most[] = {50, 5000, 3 * PIECE + 100};
    dma_comm_t *comm = open_comm(r);

    for (uint64_t tag = 1; tag <= 24; tag++) {
        uint64_t h = (tag * 7 + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
        call_spec_t spec = {.coll = (dma_coll_t)(h >> 62),
                            .in_place = h >> 61 & 1,
                            .sizes = tag,
                            .elements = 1 + (h >> 30) % most[tag % 3],
                            .vector = (h >> 56) % 8 == 0,
                            .send = (call_place_t)threads_random(r, PLACES),
                            .recv = (call_place_t)threads_random(r, PLACES)};
        call_t *c;

        if (h >> 60 & 1) {
            spec.vector = false;
            spec.send = spec.recv = PLACE_DEVICE;
        }
        c = call_make(r, &spec);
        call_run(r, comm, c, tag);
        call_run(r, comm, c, tag + 1000);
        threads_barrier(r);
        call_free(c);
    }
    dma_comm_destroy(comm);
}

START_TEST(every_algorithm_in_any_memory)
{
    const char *variant = dma_cluster_variants[_i] ? dma_cluster_variants[_i]->name : "auto";

    for (int s = _i % 2; s < 4; s += 2) {
        job_t job = relay_job(&shapes[s], any_memory, variant);

        run_job(&job);
        ck_assert_int_eq(reports_count("failed") + reports_count("no relay"), 0);
        ck_assert_uint_gt(counts_sum(DMA_COUNT_bytes_sent), 0);
        ck_assert_uint_eq(counts_sum(DMA_COUNT_bytes_sent), counts_sum(DMA_COUNT_bytes_received));
        ck_assert_uint_eq(counts_sum(DMA_COUNT_messages_sent), counts_sum(DMA_COUNT_messages_received));
        ck_assert_uint_gt(counts_sum(DMA_COUNT_calls_nodes), 0);
    }
}
END_TEST

static void ended(void *arg, dma_status_t status)
{
    atomic_store((_Atomic int *)arg, status == DMA_OK ? 1 : -1);
}

/* Several non-blocking calls in flight on two communicators, begun in different orders on different ranks; and
 * persistent calls. */
static void other_forms(rank_t *r)
{
    dma_comm_t *comms[2] = {open_comm(r), open_comm(r)};
    _Atomic int flags[2] = {0};
    dma_task_t *tasks[2];
    dma_channel_t *ch;
    call_t *c[2];

    for (uint64_t tag = 1; tag <= 4; tag++) {
        for (int i = 0; i < 2; i++) {
            call_spec_t spec = on_device((dma_coll_t)((tag + (uint64_t)i) % DMA_COLL_COUNT), tag & 1, 2 * PIECE + 77);

            spec.sizes = tag;
            if (threads_random(r, 4) == 0) {
                spec.send = spec.recv = PLACE_HOST;
            }
            c[i] = call_make(r, &spec);
            call_fill(r, c[i], tag + (uint64_t)i);
        }
        for (int i = 0; i < 2; i++) {
            int k = r->rank & 1 ? 1 - i : i;

            must(r, task_post(comms[k], &c[k]->call, NULL, NULL, &tasks[k]) == DMA_OK, "post");
        }
        while (dma_task_test(tasks[0]) == DMA_AGAIN || dma_task_test(tasks[1]) == DMA_AGAIN) {
            turn(r);
        }
        for (int i = 0; i < 2; i++) {
            must(r, dma_task_test(tasks[i]) == DMA_OK, "%s", dma_comm_reason(comms[i]));
            task_free(tasks[i]);
            call_verify(r, c[i]);
        }
        must(r, dma_channel_create(comms[0], &c[0]->call, ended, &flags[0], &ch) == DMA_OK, "channel");
        for (uint64_t k = 0; k < 2; k++) {
            flags[0] = 0;
            call_fill(r, c[0], 100 * tag + k);
            must(r, dma_channel_start(ch, NULL) == DMA_OK, "start");
            while (!flags[0]) {
                turn(r);
            }
            must(r, flags[0] == 1, "failed");
            call_verify(r, c[0]);
        }
        threads_barrier(r);
        dma_channel_destroy(ch);
        call_free(c[0]);
        call_free(c[1]);
    }
    dma_comm_destroy(comms[0]);
    dma_comm_destroy(comms[1]);
}

START_TEST(forms)
{
    job_t job = relay_job(&shapes[_i], other_forms, "auto");

    run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- slots ---- */

/* One message of many pieces. In place: a message for each of the 256 parts of a block, of two pieces each, of
 * which two may be sent before the data that replaces them arrives. */
static const struct {
    const char *variant;
    size_t bytes;
    unsigned pieces, ahead;
} large[] = {{"cluster_transpose", 48 * PIECE, 48, DMA_RELAY_SLOTS},
             {"cluster_split", DMA_CLUSTER_PIECES *(PIECE + 4096), 2 * DMA_CLUSTER_PIECES, 4}};

/* Rank 1 comes late. Rank 0 fills slots while its first messages wait, as many as it may, and no more. */
static void one_is_late(rank_t *r)
{
    int k = *(const int *)r->job->arg;
    call_spec_t spec = on_device(DMA_ALLTOALL, k, large[k].bytes);
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, &spec);
    dma_task_t *task = NULL;

    call_run(r, comm, c, 1);
    call_fill(r, c, 2);
    threads_barrier(r);
    if (r->rank == 0) {
        uint64_t filled = comm->cluster->filled;
        unsigned travel = wire_begun(0) - wire_ended(0);

        must(r, travel == 0, "%u messages are left", travel);
        must(r, task_post(comm, &c->call, NULL, NULL, &task) == DMA_OK, "post");
        for (double end = dma_now() + 120; dma_now() < end && comm->cluster->filled < filled + large[k].ahead;) {
            turn(r);
        }
        double end = dma_now() + 0.1;
        for (int turns = 0; turns < 100 || dma_now() < end; turns++) { /* a busy machine has few turns in that time */
            turn(r);
        }
        filled = comm->cluster->filled - filled;
        travel = wire_begun(0) - wire_ended(0);
        must(r, travel >= 1 && travel < DMA_RELAY_SLOTS, "%u messages travel", travel);
        must(r, filled == large[k].ahead, "%u copies into slots while messages travel", (unsigned)filled);
    }
    threads_barrier(r);
    if (r->rank == 1) {
        must(r, task_post(comm, &c->call, NULL, NULL, &task) == DMA_OK, "post");
    }
    while (dma_task_test(task) == DMA_AGAIN) {
        turn(r);
    }
    must(r, dma_task_test(task) == DMA_OK, "%s", dma_comm_reason(comm));
    task_free(task);
    call_verify(r, c);
    must(r, comm->cluster->filled == 2 * large[k].pieces, "%llu pieces", (unsigned long long)comm->cluster->filled);
    threads_barrier(r);
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(copies_overlap_messages)
{
    job_t job = relay_job(&pair, one_is_late, large[_i].variant);

    job.arg = &_i;
    wire_late();
    run_job(&job);
    ck_assert_int_eq(reports_count("relay"), 2);
}
END_TEST

#define MOST_HELD 200000 /* bytes, of all ranks; a copy of the buffer of one rank would be much more */

static const char *const makers[] = {"host_register", "alloc", "stream_create", "event_create"};

static unsigned made(void)
{
    unsigned all = 0;

    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        all += fake_gpu_calls(makers[i]);
    }
    return all;
}

/* Calls that are much larger than the slots need no memory beyond that of the first call, and none that grows with them. */
static void again_and_again(rank_t *r)
{
    const call_spec_t *spec = r->job->arg;
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, spec);
    unsigned before;

    for (uint64_t tag = 1; tag <= 3; tag++) {
        call_run(r, comm, c, tag);
    }
    call_fill(r, c, 4);
    threads_barrier(r);
    before = made();
    if (r->rank == 0) {
        most_held = held = 0;
    }
    threads_barrier(r);
    for (int k = 0; k < 5; k++) {
        must(r, dma_comm_run(comm, &c->call) == DMA_OK, "%s", dma_comm_reason(comm));
    }
    threads_barrier(r);
    must(r, most_held <= MOST_HELD, "%ld bytes taken in calls of %zu", most_held, c->recv.bytes);
    must(r, made() == before, "%u things of the runtime made in repeated calls", made() - before);
    threads_barrier(r);
    must(r, fake_gpu_calls("host_register") <= 2 * (unsigned)r->n, "%u registrations", fake_gpu_calls("host_register"));
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(nothing_is_allocated_in_repeated_calls)
{
    call_spec_t spec = on_device((dma_coll_t)(_i / 2), _i % 2, 6 * PIECE);
    job_t job = relay_job(&shapes[0], again_and_again, "auto");

    job.arg = &spec;
    wire_late(); /* otherwise it copies messages */
    run_job(&job);
}
END_TEST

/* ---- inside the nodes ---- */

static unsigned runs_of_engines(const dma_comm_t *comm)
{
    const dma_comm_t *local = comm->cluster->node_comm;

    return local ? call_runs(local) : 0;
}

/* Engines exchange the data between ranks of one node, unless one of these ranks uses host memory. */
static void local_parts(rank_t *r)
{
    dma_comm_t *comm = open_comm(r);

    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            call_spec_t spec = on_device((dma_coll_t)coll, in_place, 2 * PIECE + 5);
            bool v = dma_coll_sizes(coll) != DMA_SIZES_EQUAL; /* a rank may have no bytes, so no device memory */
            /* copies that the caller waits for: those of staging */
            unsigned before = runs_of_engines(comm), copies = fake_gpu_calls("copy");
            call_t *c = call_make(r, &spec);

            threads_barrier(r);
            call_run(r, comm, c, (uint64_t)coll);
            threads_barrier(r);
            copies = fake_gpu_calls("copy") - copies;
            must(r, v || (runs_of_engines(comm) > before && copies == 0),
                 "operation %d: the host has done it, %u copies", coll, copies);
            threads_barrier(r);
            call_free(c);
        }
    }
    for (int coll = 0; coll < DMA_COLL_COUNT; coll += 2) {
        call_spec_t spec = on_device((dma_coll_t)coll, false, 2 * PIECE + 5);
        unsigned before = runs_of_engines(comm);
        call_t *c;

        spec.recv = r->rank ? PLACE_DEVICE : PLACE_HOST;
        c = call_make(r, &spec);
        call_run(r, comm, c, 100);
        must(r, r->rank <= 1 || runs_of_engines(comm) > before, "the other node's engines have not run");
        threads_barrier(r);
        call_free(c);
    }
    dma_comm_destroy(comm);
}

START_TEST(nodes_use_their_engines)
{
    static const char *const variants[] = {"auto",           "cluster_ring",      "cluster_direct", "cluster_rails",
                                           "cluster_leader", "cluster_transpose", "cluster_pairs",  "cluster_split"};
    job_t job = relay_job(&shapes[0], local_parts, variants[_i]);

    run_job(&job);
    ck_assert_int_eq(reports_count("failed") + reports_count("device off"), 0);
}
END_TEST

/* ---- missing resources, and failures ---- */

static void without_slots(rank_t *r)
{
    call_spec_t spec = on_device(DMA_ALLTOALL, false, 2 * PIECE + 5);
    dma_comm_t *comm = open_comm(r);

    for (int in_place = 0; in_place < 2; in_place++) {
        call_t *c;

        spec.in_place = in_place;
        c = call_make(r, &spec);
        threads_barrier(r);
        if (r->rank == 0) { /* of one rank, whichever it is */
            fake_gpu_fail("host_register", 0, DMA_ERR_NOMEM);
            fake_gpu_fail("stream_create", 0, DMA_ERR_ENGINE);
        }
        threads_barrier(r);
        call_run(r, comm, c, 1);
        call_run(r, comm, c, 2);
        threads_barrier(r);
        call_free(c);
    }
    dma_comm_destroy(comm);
}

START_TEST(ranks_without_slots_stage)
{
    job_t job = relay_job(&shapes[3], without_slots, "auto");

    run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_relay), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
    ck_assert_int_ge(reports_count("no relay"), 1);
}
END_TEST

static const char *const breakable[] = {"copy_async", "event_record", "event_query", NULL};

/* A copy that fails, or an engine that stops, fails the call on all ranks, and nothing of it is left. */
static void engine_breaks(rank_t *r)
{
    const char *function = *(const char *const *)r->job->arg;
    call_spec_t spec = on_device(DMA_ALLTOALL, false, 20 * PIECE);
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    call_run(r, comm, c, 1);
    threads_barrier(r);
    if (r->rank == 0 && function) {
        fake_gpu_fail(function, 30, DMA_ERR_ENGINE);
    } else if (r->rank == 0) {
        fake_gpu_hold(1, true);
    }
    threads_barrier(r);
    status = call_try(r, comm, c, 2);
    must(r, status < 0, "ended with %s", dma_status_name(status));
    threads_barrier(r);
    if (!function) {
        if (r->rank == 0) {
            fake_gpu_hold(1, false);
        }
        usleep(100000); /* what has been held is done in this time */
        threads_barrier(r);
    }
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(engines_that_break)
{
    job_t job = relay_job(&shapes[3], engine_breaks, "auto");

    job.arg = &breakable[_i];
    if (!breakable[_i]) {
        job.params.timeout = 3; /* the calls before the failure must not take so long */
    }
    run_job(&job);
    ck_assert_int_ge(reports_count("failed"), 3);
}
END_TEST

static void one_leaves(rank_t *r)
{
    call_spec_t spec = on_device(DMA_ALLGATHER, false, 20 * PIECE);
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, &spec);

    call_run(r, comm, c, 1);
    threads_barrier(r);
    if (r->rank == 2) {
        wire_leave(2);
    } else {
        dma_status_t status = call_try(r, comm, c, 2);

        must(r, status == DMA_ERR_PEER, "ended with %s", dma_status_name(status));
    }
    threads_barrier(r);
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(a_rank_is_gone)
{
    job_t job = relay_job(&shapes[3], one_leaves, "auto");

    run_job(&job);
}
END_TEST

/* As whole messages: each of them fits. */
static void unequal(rank_t *r)
{
    call_spec_t spec = on_device(DMA_ALLTOALL, false, (size_t)(2 + r->rank) * PIECE);
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, &spec);
    dma_status_t status = call_try(r, comm, c, 1);

    must(r, status == DMA_ERR_TRUNCATE, "ended with %s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(sizes_that_differ_by_pieces)
{
    job_t job = relay_job(&pair, unequal, "auto");

    run_job(&job);
}
END_TEST

/* A small call takes little pinned memory, so many can be under way at once. */
static void small_calls(rank_t *r)
{
    call_spec_t spec = on_device(DMA_ALLGATHER, false, 100);
    dma_comm_t *comm = open_comm(r);
    call_t *c = call_make(r, &spec);

    call_run(r, comm, c, 1);
    threads_barrier(r);
    call_free(c);
    dma_comm_destroy(comm);
}

START_TEST(small_calls_take_little)
{
    job_t job = relay_job(&shapes[3], small_calls, "auto");

    job.params.net_chunk_bytes = 65536;
    job.params.pinned_bytes = 256 << 10;
    run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_relay), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("relay");
    int variants = 0;

    while (dma_cluster_variants[variants]) {
        variants++;
    }
    unit_loop(suite, every_algorithm_in_any_memory, 0, variants + 1, 60);
    unit_loop(suite, forms, 0, 4, 60);
    unit_loop(suite, copies_overlap_messages, 0, 2, 30);
    unit_loop(suite, nothing_is_allocated_in_repeated_calls, 0, 2 * DMA_COLL_COUNT, 30);
    unit_loop(suite, nodes_use_their_engines, 0, 8, 60);
    unit_test(suite, ranks_without_slots_stage, 30);
    unit_loop(suite, engines_that_break, 0, 4, 30);
    unit_test(suite, a_rank_is_gone, 30);
    unit_test(suite, sizes_that_differ_by_pieces, 30);
    unit_test(suite, small_calls_take_little, 30);
    return unit_main(suite);
}
