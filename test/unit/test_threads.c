/*
 * The core with ranks as threads: set-up, blocking and non-blocking calls, communicators that come and go.
 * test_errors.c has the failures. This program is also run with the address and thread sanitizers.
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

#define MAX_BLOCK 40000

/* Waits for other ranks by the only means of MPI: progress. */
static void wait_reached(rank_t *r, int value)
{
    while (atomic_load(&r->job->reached) < value) {
        threads_host.progress();
    }
}

static void skew(rank_t *r)
{
    switch (threads_random(r, 8)) {
    case 0:
        usleep(threads_random(r, 300));
        break;
    case 1:
        sched_yield();
        break;
    default:
        break;
    }
}

/* One blocking call. The user changes the send buffer as soon as it returns, so a late reader gets wrong bytes. */
static void gather(rank_t *r, dma_comm_t *comm, uint64_t tag, size_t bytes, bool in_place)
{
    uint8_t *send = malloc(bytes + 1), *recv = malloc((size_t)r->n * bytes + 1);
    dma_side_t from = data_buffer(send, bytes), to = data_buffer(recv, bytes);
    dma_status_t status;

    memset(recv, 0xee, (size_t)r->n * bytes + 1);
    data_fill(in_place ? recv + (size_t)r->rank * bytes : send, tag, r->rank, bytes);
    skew(r);
    status = data_allgather(comm, in_place ? NULL : &from, &to);
    memset(send, 0xdd, bytes);
    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
    data_check(r, recv, tag, bytes);
    must(r, recv[(size_t)r->n * bytes] == 0xee, "written beyond the end");
    memset(recv, 0xdd, (size_t)r->n * bytes);
    free(send);
    free(recv);
}

/* Sizes around all limits of the choice. All ranks must have the same size, so it is a function of the call's number. */
static size_t size_of(uint64_t tag)
{
    static const size_t sizes[] = {1,    8,    32,   33,    96,    97,    500,   4095, 4096,
                                   4097, 8192, 8193, 12289, 16384, 20000, 40000, 3,    0};
    uint64_t h = (tag + unit_seed()) * 0x9e3779b97f4a7c15ull;

    return h >> 63 ? sizes[(h >> 20) % 18] : (h >> 20) % (h >> 62 ? 200 : MAX_BLOCK);
}

static void some_calls(rank_t *r)
{
    const int *calls = r->job->arg;

    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= (uint64_t)*calls; tag++) {
        gather(r, r->comms[0], tag, size_of(tag), threads_random(r, 2));
    }
}

START_TEST(setup_with_late_messages)
{
    int calls = 5;

    for (int n = 1; n <= 9; n++) {
        job_t job = threads_job(n, some_calls);
        job.arg = &calls;
        job.delay_us = n % 3 * 1000;
        threads_run(&job);
    }
}
END_TEST

/* Each variant alone, with each number of ranks. */
START_TEST(blocking)
{
    static const int ranks[] = {2, 3, 4, 9};
    int calls = 60;

    for (int i = 0; i < 4; i++) {
        job_t job = threads_job(ranks[i], some_calls);
        job.arg = &calls;
        job.params.chunk_depth = 2;
        job.params.chunk_bytes = 4096;
        snprintf(job.params.variant, sizeof(job.params.variant), "%s",
                 dma_variants[_i]->gpu ? "auto" : dma_variants[_i]->name);
        threads_run(&job);
    }
}
END_TEST

static void staging_only(int rank, dma_params_t *params)
{
    /* the parameters of rank 0 count, whatever the others have */
    params->cross_memory = rank != 0;
}

START_TEST(without_cross_memory)
{
    int calls = 40;
    job_t job = threads_job(4, some_calls);

    job.arg = &calls;
    job.tune = staging_only;
    job.threads = true;
    snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
    threads_run(&job);
    ck_assert_int_gt(reports_count("forced"), 0);
}
END_TEST

/* ---- non-blocking ---- */

typedef struct posted {
    dma_task_t *task;
    uint8_t *send, *recv;
    size_t bytes;
    uint64_t tag;
} posted_t;

static void post(rank_t *r, dma_comm_t *comm, posted_t *p, uint64_t tag, size_t bytes)
{
    bool in_place = threads_random(r, 2);
    dma_status_t status;

    *p = (posted_t){.send = malloc(bytes + 1), .recv = malloc((size_t)r->n * bytes + 1), .bytes = bytes, .tag = tag};
    dma_side_t from = data_buffer(p->send, bytes), to = data_buffer(p->recv, bytes);
    data_fill(in_place ? p->recv + (size_t)r->rank * bytes : p->send, tag, r->rank, bytes);
    status = data_iallgather(comm, in_place ? NULL : &from, &to, &p->task);
    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
}

static void finish(rank_t *r, posted_t *p)
{
    dma_status_t status;

    while ((status = dma_task_test(p->task)) == DMA_AGAIN) {
        threads_host.progress();
    }
    must(r, status == DMA_OK, "call %llu: %s", (unsigned long long)p->tag, dma_status_name(status));
    data_check(r, p->recv, p->tag, p->bytes);
    memset(p->send, 0xdd, p->bytes);
    task_free(p->task);
    free(p->send);
    free(p->recv);
}

enum { AHEAD = 1000 };

/* Rank 0 posts everything before any other rank posts anything. The others wait for the ends in their own order. */
static void far_ahead(rank_t *r)
{
    posted_t *p = calloc(AHEAD, sizeof(*p));

    if (r->rank) {
        wait_reached(r, 1);
    }
    for (int i = 0; i < AHEAD; i++) {
        post(r, r->comms[0], &p[i], (uint64_t)i, i % 50 == 7 ? 9000 : size_of((uint64_t)i) % 300);
    }
    atomic_fetch_add(&r->job->reached, 1);
    for (int i = 0; i < AHEAD; i++) {
        finish(r, &p[r->rank % 2 ? AHEAD - 1 - i : i]);
    }
    must(r, dma_proc_active(r->proc) == 0, "busy without tasks");
    free(p);
}

START_TEST(a_thousand_ahead)
{
    for (int round = 0; round < 6; round++) { /* the way of each acknowledgement differs from run to run */
        job_t job = threads_job(_i, far_ahead);
        job.params.ring_depth = round % 2 ? 4 : 8;
        threads_run(&job);
    }
}
END_TEST

/* Posted before any message of the set-up has arrived. Blocking calls are queued behind them. */
static void early(rank_t *r)
{
    posted_t p[6];

    for (int i = 0; i < 6; i++) {
        post(r, r->comms[0], &p[i], (uint64_t)i, size_of((uint64_t)i));
    }
    threads_prepare(r, r->comms[0]);
    gather(r, r->comms[0], 77, 1000, false);
    for (int i = 5; i >= 0; i--) {
        finish(r, &p[i]);
    }
}

START_TEST(posted_before_set_up)
{
    for (int n = 1; n <= 5; n++) {
        job_t job = threads_job(n, early);
        job.delay_us = 2000;
        threads_run(&job);
    }
}
END_TEST

/* Calls on two communicators in opposite orders. The first calls come before the set-ups have ended. */
static void crossed(rank_t *r)
{
    for (uint64_t round = 0; round < 20; round++) {
        posted_t p[2];
        for (int k = 0; k < 2; k++) {
            int c = (k + r->rank) % 2;
            post(r, r->comms[c], &p[c], 2 * round + (uint64_t)c, size_of(round));
            skew(r);
        }
        finish(r, &p[r->rank / 2 % 2]);
        finish(r, &p[1 - r->rank / 2 % 2]);
    }
}

START_TEST(crossed_communicators)
{
    job_t job = threads_job(4, crossed);

    job.ncomms = 2;
    threads_run(&job);
}
END_TEST

/* Blocking and non-blocking calls share one order. */
static void interleaved(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t round = 0; round < 30; round++) {
        posted_t p[3];
        int n = 1 + (int)(round % 3);
        for (int i = 0; i < n; i++) {
            post(r, r->comms[0], &p[i], 10 * round + (uint64_t)i, size_of(round + (uint64_t)i));
        }
        gather(r, r->comms[0], 10 * round + 9, size_of(3 * round), threads_random(r, 2));
        for (int i = 0; i < n; i++) {
            finish(r, &p[i]);
        }
    }
}

START_TEST(blocking_behind_non_blocking)
{
    for (int v = 2; v < 5; v++) {
        job_t job = threads_job(3, interleaved);
        job.params.ring_depth = 4;
        job.params.chunk_depth = 2;
        snprintf(job.params.variant, sizeof(job.params.variant), "%s", v < 4 ? dma_variants[v]->name : "auto");
        threads_run(&job);
    }
}
END_TEST

/* Rank 1 completes four calls and enters no other for some time. Rank 0 goes on into the places of these calls in
 * the ring: the acknowledgement is in a word of its own. A race detector sees whether it orders anything. */
static void acknowledged(rank_t *r)
{
    posted_t p[4];

    threads_prepare(r, r->comms[0]);
    for (uint64_t round = 0; round < 20; round++) {
        usleep(r->rank ? 2000 : 0);
        for (uint64_t i = 0; i < 4; i++) {
            post(r, r->comms[0], &p[i], 4 * round + i, 500);
        }
        for (uint64_t i = 0; i < 4; i++) {
            finish(r, &p[i]);
        }
    }
}

START_TEST(acknowledged_apart)
{
    for (int n = 2; n < 4; n++) {
        job_t job = threads_job(n, acknowledged);
        job.params.ring_depth = 4;
        job.params.arena_bytes = 8u << 20;
        snprintf(job.params.variant, sizeof(job.params.variant), "host_slot");
        threads_run(&job);
    }
}
END_TEST

/* An acknowledgement counts also if it is in the descriptor of a call that this rank has not entered yet: it is not
 * repeated. */
START_TEST(acknowledged_ahead)
{
    dma_geom_t geom = {.ring_depth = 8, .slot_bytes = 256, .chunk_bytes = 4096, .chunk_depth = 2};
    dma_peer_t peers[2] = {{0}};
    uint32_t acks[2] = {6, 6};
    dma_window_t w = {
        .nranks = 2, .geom = geom, .peers = peers, .acks = acks, .ack = 14, .ack_published = 13, .ack_floor = 6};
    dma_arena_t *arena;
    dma_desc_t *theirs;

    arena = threads_blocks(&w);
    ck_assert(!dma_window_may_publish(&w, 15));
    theirs = dma_window_desc(&w, 1, 16);
    theirs->ack = 14;
    atomic_store(&theirs->seq, 16);
    ck_assert(dma_window_may_publish(&w, 15));
    dma_arena_destroy(arena);
}
END_TEST

/* Sequence numbers wrap at 2^32, and differences change their sign at 2^31. No rank notices. */
static void wrapping(rank_t *r)
{
    const uint64_t *first = r->job->arg;

    posted_t p[24];

    r->comms[0]->seq = *first;
    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 15; tag++) {
        gather(r, r->comms[0], tag, size_of(tag), threads_random(r, 2));
    }
    /* one rank is ahead at the wrap: the ring must hold it back */
    usleep(r->rank ? 2000 : 0);
    for (uint64_t i = 0; i < 24; i++) {
        post(r, r->comms[0], &p[i], i, 1 + size_of(i) % 80);
    }
    for (uint64_t i = 0; i < 24; i++) {
        finish(r, &p[i]);
    }
    for (uint64_t tag = 1; tag <= 10; tag++) {
        gather(r, r->comms[0], tag, size_of(tag), threads_random(r, 2));
    }
}

START_TEST(sequence_wraps)
{
    static const uint64_t firsts[] = {0xffffffffu - 20, 0x7fffffffu - 20, 0x1fffffffful - 20};

    for (int v = 0; v < 4; v++) {
        for (int i = 0; i < 3; i++) {
            job_t job = threads_job(3, wrapping);
            job.arg = &firsts[i];
            snprintf(job.params.variant, sizeof(job.params.variant), "%s", dma_variants[v]->name);
            threads_run(&job);
        }
    }
}
END_TEST

/* ---- communicators ---- */

enum { LIVES = 300 };

/* Communicators come and go, at different times on different ranks. The arena does not grow. */
static void come_and_go(rank_t *r)
{
    size_t first = 0, most = 0;

    for (uint64_t i = 0; i < LIVES; i++) {
        dma_comm_t *comm = threads_comm(r, 1);
        threads_prepare(r, comm);
        if (i == 0) {
            first = dma_arena_used(r->proc->arena);
        }
        if (i % 3) {
            gather(r, comm, i, 100, false);
        }
        skew(r);
        dma_comm_destroy(comm);
        most = dma_arena_used(r->proc->arena) > most ? dma_arena_used(r->proc->arena) : most;
    }
    must(r, most <= 4 * first, "one communicator takes %zu bytes, at most %zu were used", first, most);
}

START_TEST(communicators_come_and_go)
{
    job_t job = threads_job(_i, come_and_go);

    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* More communicators at once than the arena has room for at full size. First buffers shrink, then the other
 * communicators step aside. When some have ended, there is room again. */
static void crowd(rank_t *r)
{
    dma_comm_t *comms[40];
    int ready = 0, aside = 0;

    for (int i = 0; i < 40; i++) {
        comms[i] = threads_comm(r, 1 + i % 2);
        dma_status_t status = dma_comm_prepare(comms[i]);
        must(r, status == DMA_OK || status == DMA_UNSUPPORTED, "%s", dma_status_name(status));
        if (status == DMA_OK) {
            must(r, !aside, "a communicator is ready after another one was not");
            gather(r, comms[i], (uint64_t)i, 3000, true);
            ready++;
        } else {
            must(r, dma_comm_reason(comms[i])[0], "no reason");
            aside++;
        }
    }
    must(r, ready > 2 && aside > 2, "%d ready, %d aside", ready, aside);
    for (int i = 0; i < 40; i++) {
        dma_comm_destroy(comms[i]);
    }
    threads_barrier(r);
    threads_prepare(r, r->comms[0]);
    gather(r, r->comms[0], 1, 3000, true);
}

START_TEST(full_arena)
{
    job_t job = threads_job(3, crowd);

    job.params.arena_bytes = 256 << 10;
    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

static void few_calls(rank_t *r)
{
    static const size_t sizes[] = {8, 200, 5000};

    threads_prepare(r, r->comms[0]);
    for (uint64_t i = 0; i < 3; i++) {
        gather(r, r->comms[0], i, sizes[i], i == 1);
    }
}

START_TEST(many_ranks)
{
    job_t job = threads_job(_i, few_calls);

    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* ---- possible buffers ---- */

static void derived(rank_t *r)
{
    threads_prepare(r, r->comms[0]);
    for (uint64_t tag = 0; tag < 32; tag++) {
        bool vector_send = tag & 1, vector_recv = tag & 2, in_place = tag & 4;
        size_t count = 1 + tag * 13, piece = 5, stride = 9, bytes = count * piece;
        vector_type_t type = {.piece = piece, .stride = stride};
        uint8_t *flat = malloc(bytes), *packed = malloc((size_t)r->n * bytes);
        uint8_t *send = malloc(count * stride), *recv = malloc((size_t)r->n * count * stride);
        dma_side_t from = data_buffer(flat, bytes), to = data_buffer(packed, bytes);

        data_fill(flat, tag, r->rank, bytes);
        memset(recv, 0xee, (size_t)r->n * count * stride);
        if (vector_send) {
            from =
                (dma_side_t){.addr = send, .size = piece, .extent = (ptrdiff_t)stride, .count = count, .type = &type};
            threads_host.unpack(send, count, &type, flat, bytes);
        }
        if (vector_recv) {
            to = (dma_side_t){.addr = recv, .size = piece, .extent = (ptrdiff_t)stride, .count = count, .type = &type};
        }
        if (in_place && vector_recv) {
            threads_host.unpack(recv + (size_t)r->rank * count * stride, count, &type, flat, bytes);
        } else if (in_place) {
            memcpy(packed + (size_t)r->rank * bytes, flat, bytes);
        }
        must(r, data_allgather(r->comms[0], in_place ? NULL : &from, &to) == DMA_OK, "%s",
             dma_comm_reason(r->comms[0]));
        for (int s = 0; vector_recv && s < r->n; s++) {
            uint8_t *block = recv + (size_t)s * count * stride;
            threads_host.pack(block, count, &type, packed + (size_t)s * bytes, bytes);
            for (size_t i = 0; i < count * stride; i++) {
                must(r, i % stride < piece || block[i] == 0xee, "a gap between elements was written");
            }
        }
        data_check(r, packed, tag, bytes);
        free(flat);
        free(packed);
        free(send);
        free(recv);
    }
}

START_TEST(derived_datatypes)
{
    for (int n = 1; n < 4; n++) {
        job_t job = threads_job(n, derived);
        threads_run(&job);
    }
}
END_TEST

/* ---- several threads of one rank ---- */

typedef struct helper {
    rank_t rank;
    int comm;
    pthread_t thread;
} helper_t;

static void *helper_main(void *arg)
{
    helper_t *h = arg;
    dma_comm_t *comm = h->rank.comms[h->comm];

    threads_enter(h->rank.proc);
    must(&h->rank, dma_comm_prepare(comm) == DMA_OK, "%s", dma_comm_reason(comm));
    for (uint64_t round = 0; round < 30; round++) {
        posted_t p;
        post(&h->rank, comm, &p, round, size_of(round) % 9000);
        gather(&h->rank, comm, 100 + round, size_of(100 + round) % 9000, round % 2);
        finish(&h->rank, &p);
        if (round % 10 == 9) {
            dma_comm_destroy(comm);
            h->rank.comms[h->comm] = comm = threads_comm(&h->rank, h->comm);
            must(&h->rank, dma_comm_prepare(comm) == DMA_OK, "%s", dma_comm_reason(comm));
        }
    }
    return NULL;
}

static void several_threads(rank_t *r)
{
    helper_t helpers[3];

    for (int i = 0; i < 3; i++) {
        helpers[i] = (helper_t){.rank = *r, .comm = i};
        helpers[i].rank.rng += (uint64_t)i * 99;
        must(r, !pthread_create(&helpers[i].thread, NULL, helper_main, &helpers[i]), "pthread_create");
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(helpers[i].thread, NULL);
        r->comms[i] = helpers[i].rank.comms[i];
    }
}

START_TEST(threads_of_one_rank)
{
    job_t job = threads_job(2, several_threads);

    job.ncomms = 3;
    job.threads = true;
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("threads");

    unit_test(suite, setup_with_late_messages, 20);
    unit_loop(suite, blocking, 0, 6, 20);
    unit_test(suite, without_cross_memory, 20);
    unit_loop(suite, a_thousand_ahead, 2, 4, 20);
    unit_test(suite, posted_before_set_up, 20);
    unit_test(suite, crossed_communicators, 20);
    unit_test(suite, blocking_behind_non_blocking, 20);
    unit_test(suite, acknowledged_ahead, 20);
    unit_test(suite, acknowledged_apart, 20);
    unit_test(suite, sequence_wraps, 20);
    unit_loop(suite, communicators_come_and_go, 2, 4, 20);
    unit_test(suite, full_arena, 20);
    unit_test(suite, derived_datatypes, 20);
    unit_test(suite, threads_of_one_rank, 20);
    unit_loop(suite, many_ranks, 64, 65, 20);
    unit_loop(suite, many_ranks, 256, 257, 20);
    return unit_main(suite);
}
