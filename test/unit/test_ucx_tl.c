/*
 * Messages between processes over ucx_tl: order, sizes, tags, bounds, threads, ends. The only mistakes are those of
 * callers. Over TCP and over shared memory. test_ucx_tl_faults.c has the failures of peers.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../ucx/procs.h"
#include "libunit.h"

static const char *const transports[] = {"tcp", "posix,sysv"};
#define TRANSPORTS 2

#define MESSAGES 48
#define GUARD    0xa7

typedef struct message {
    dma_net_tag_t tag;
    uint64_t seed;
    size_t bytes;
    unsigned char *buffer; /* one byte more, the guard */
    dma_ucx_req_t *req;
} message_t;

/* Equal on both sides. */
static message_t message_of(int from, int to, int number)
{
    uint64_t h = (unit_seed() + (uint64_t)(from * 100 + to * 10) * 1000 + (uint64_t)number) * 0x9e3779b97f4a7c15ull;
    size_t limit = h >> 62 == 0   ? 64
                   : h >> 62 == 1 ? 20000
                   : h >> 62 == 2 ? 300000
                                  : (number % 8 ? 70000 : (4u << 20) + 1);

    return (message_t){
        /* The sequence wraps in the middle. */
        .tag = {.comm = 9,
                .owner = (uint32_t)from,
                .seq = 0xffffffffu - MESSAGES / 6 + (uint32_t)number / 3,
                .step = (uint32_t)number % 3,
                .note = 77},
        .seed = h,
        .bytes = (h >> 20) % limit,
    };
}

static void make_buffer(proc_t *p, message_t *m)
{
    m->buffer = malloc(m->bytes + 1);
    must(p, m->buffer, "no memory");
    memset(m->buffer, GUARD, m->bytes + 1);
}

static void shuffle(proc_t *p, int *order, int n)
{
    for (int i = 0; i < n; i++) {
        int k = (int)proc_random(p, (uint64_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
}

static void send_one(proc_t *p, int to, message_t *m)
{
    dma_status_t status;

    make_buffer(p, m);
    proc_fill(m->buffer, m->bytes, m->seed);
    status = dma_ucx_isend(p->net, p->peers[to], &m->tag, m->buffer, m->bytes, &m->req);
    must(p, status == DMA_OK, "isend: %s", dma_status_name(status));
}

static void receive_one(proc_t *p, int from, message_t *m)
{
    dma_status_t status;

    make_buffer(p, m);
    status = dma_ucx_irecv(p->net, p->peers[from], &m->tag, m->buffer, m->bytes, &m->req);
    must(p, status == DMA_OK, "irecv: %s", dma_status_name(status));
}

static void finish_one(proc_t *p, message_t *m, bool check)
{
    dma_status_t status = proc_wait(p, &m->req, 30);

    must(p, status == DMA_OK, "seq %u step %u, %zu bytes: %s", m->tag.seq, m->tag.step, m->bytes,
         dma_status_name(status));
    must(p, !check || proc_right(m->buffer, m->bytes, m->seed), "seq %u step %u: wrong data", m->tag.seq, m->tag.step);
    must(p, m->buffer[m->bytes] == GUARD, "written beyond the end");
    free(m->buffer);
}

/* All to all, also to oneself. Receives are in an order of their own, and some of them are late. */
static void random_order(proc_t *p)
{
    message_t out[PROCS_MAX][MESSAGES], in[PROCS_MAX][MESSAGES];
    int order[PROCS_MAX * MESSAGES], all = p->n * MESSAGES, early = (int)proc_random(p, (uint64_t)all);

    for (int i = 0; i < all; i++) {
        out[i % p->n][i / p->n] = message_of(p->rank, i % p->n, i / p->n);
        in[i % p->n][i / p->n] = message_of(i % p->n, p->rank, i / p->n);
    }
    shuffle(p, order, all);
    for (int i = 0; i < early; i++) {
        receive_one(p, order[i] % p->n, &in[order[i] % p->n][order[i] / p->n]);
    }
    for (int i = 0; i < all; i++) {
        send_one(p, i % p->n, &out[i % p->n][i / p->n]);
        dma_ucx_progress(p->net);
    }
    for (int i = early; i < all; i++) {
        receive_one(p, order[i] % p->n, &in[order[i] % p->n][order[i] / p->n]);
    }
    for (int i = 0; i < all; i++) {
        finish_one(p, &in[order[i] % p->n][order[i] / p->n], true);
    }
    for (int i = 0; i < all; i++) {
        finish_one(p, &out[i % p->n][i / p->n], false);
    }
    must(p, !proc_requests(p), "%u requests left", proc_requests(p));
    proc_barrier(p);
    must(p, !proc_failures(p), "a peer has failed");
}

START_TEST(messages_in_any_order)
{
    procs_spec_t spec = {.n = 3, .tls = _i < TRANSPORTS ? transports[_i] : "tcp,self", .seconds = 40};

    ck_assert_int_eq(procs_run(&spec, random_order), 0);
}
END_TEST

/* Everything has arrived before it is asked for. Messages with equal tags come in order. */
static void unexpected(proc_t *p)
{
    static const size_t sizes[] = {0, 1, 100, 9000, 70000, 1 << 20};
    message_t m[12];
    int other = 1 - p->rank;

    for (int i = 0; i < 12; i++) {
        m[i] = (message_t){.tag = {.comm = 1, .owner = 0, .seq = 5}, .seed = (uint64_t)i, .bytes = sizes[i % 6]};
        if (p->rank == 0) {
            send_one(p, other, &m[i]);
        }
    }
    for (double end = proc_now() + 0.5; proc_now() < end;) {
        proc_turn(p);
    }
    proc_barrier(p);
    for (int i = 0; i < 12; i++) {
        if (p->rank == 1) {
            receive_one(p, other, &m[i]);
        }
        finish_one(p, &m[i], p->rank == 1);
    }
    proc_barrier(p);
}

START_TEST(messages_before_their_receives)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, unexpected), 0);
}
END_TEST

/* One message does not fit: nothing is written, the receiver gets the error, and the next message is in order. */
static void one_misfit(proc_t *p, uint32_t seq, size_t sent, size_t posted, uint32_t note, bool early,
                       dma_status_t want)
{
    dma_net_tag_t tag = {.comm = 2, .seq = seq, .note = 10}, other_tag = tag;
    unsigned char *buffer = malloc(sent + posted + 1);
    dma_ucx_req_t *req = NULL;
    dma_status_t status;

    other_tag.note = note;
    memset(buffer, GUARD, sent + posted + 1);
    if (p->rank == 0) {
        if (early) {
            proc_barrier(p);
        }
        status = dma_ucx_isend(p->net, p->peers[1], &tag, buffer, sent, &req);
    } else {
        if (!early) {
            for (double end = proc_now() + 0.1; proc_now() < end;) {
                proc_turn(p);
            }
        }
        status = dma_ucx_irecv(p->net, p->peers[0], &other_tag, buffer, posted, &req);
        if (early) {
            proc_barrier(p);
        }
    }
    must(p, status == DMA_OK, "post: %s", dma_status_name(status));
    status = proc_wait(p, &req, 10);
    if (p->rank == 0) {
        /* Whether the sender gets the error depends on the size and on UCX. */
        must(p, status == DMA_OK || status == DMA_ERR_TRUNCATE, "send of %zu: %s", sent, dma_status_name(status));
    } else {
        must(p, status == want, "%zu into %zu: %s", sent, posted, dma_status_name(status));
        for (size_t i = 0; i < sent + posted + 1; i++) {
            must(p, buffer[i] == GUARD, "written at %zu", i);
        }
    }
    free(buffer);
}

static void misfits(proc_t *p)
{
    static const size_t sizes[] = {1, 50, 8000, 9000, 100000, 3 << 20};
    message_t m = {.tag = {.comm = 2, .seq = 1000}, .seed = 1, .bytes = 5000};
    uint32_t seq = 0;

    for (int early = 0; early < 2; early++) {
        for (int i = 0; i < 6; i++) {
            one_misfit(p, seq++, sizes[i], sizes[i] - 1, 10, early, DMA_ERR_TRUNCATE);
            one_misfit(p, seq++, sizes[i], sizes[i] + 1, 10, early, DMA_ERR_TRUNCATE);
            one_misfit(p, seq++, sizes[i], sizes[i], 11, early, DMA_ERR_MISMATCH);
            one_misfit(p, seq++, sizes[i], sizes[i], 10 + 256, early, DMA_ERR_TRUNCATE);
            one_misfit(p, seq++, sizes[i], 0, 10, early, DMA_ERR_TRUNCATE);
        }
    }
    if (p->rank == 0) {
        send_one(p, 1, &m);
    } else {
        receive_one(p, 0, &m);
    }
    finish_one(p, &m, p->rank);
    proc_barrier(p);
}

START_TEST(sizes_and_notes_that_differ)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 30};

    ck_assert_int_eq(procs_run(&spec, misfits), 0);
}
END_TEST

#define MANY     1500
#define CROSSING 150

/* Received from the last to the first. */
static void many(proc_t *p)
{
    static message_t out[MANY], in[MANY];
    int other = 1 - p->rank;

    for (int i = 0; i < MANY; i++) {
        in[i] = (message_t){.tag = {.comm = 3, .seq = (uint32_t)i, .owner = (uint32_t)other},
                            .seed = (uint64_t)i,
                            .bytes = (size_t)(i % 50 ? i : 200000)};
        out[i] = in[i];
        out[i].tag.owner = (uint32_t)p->rank;
    }
    for (int i = MANY - 1; i >= 0; i--) {
        receive_one(p, other, &in[i]);
    }
    for (int i = 0; i < MANY; i++) {
        send_one(p, other, &out[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        finish_one(p, &out[i], false);
        finish_one(p, &in[i], true);
    }
    proc_barrier(p);
}

START_TEST(many_at_once)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 40};

    ck_assert_int_eq(procs_run(&spec, many), 0);
}
END_TEST

/* Any number of messages may be under way to one peer, which waits for the last of them first. */
static void crossing(proc_t *p)
{
    static message_t m[CROSSING];
    message_t again;

    for (int i = 0; i < CROSSING; i++) {
        m[i] = (message_t){.tag = {.comm = 3, .seq = (uint32_t)i}, .seed = (uint64_t)i, .bytes = 300000};
        if (p->rank == 0) {
            send_one(p, 1, &m[i]);
        }
    }
    for (int i = CROSSING - 1; i >= 0; i--) {
        if (p->rank == 1) {
            receive_one(p, 0, &m[i]);
        }
        finish_one(p, &m[i], p->rank);
    }
    /* One of two equal receives is cancelled: the other gets the message. */
    again = m[3];
    if (p->rank == 1) {
        receive_one(p, 0, &m[3]);
        receive_one(p, 0, &again);
        dma_ucx_cancel(p->net, m[3].req);
        must(p, dma_ucx_test(p->net, &m[3].req) == DMA_ERR_NET, "a receive that was cancelled");
        free(m[3].buffer);
    }
    proc_barrier(p);
    if (p->rank == 0) {
        send_one(p, 1, &again);
    }
    finish_one(p, &again, p->rank);
    proc_barrier(p);
}

START_TEST(calls_that_cross)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, crossing), 0);
}
END_TEST

/* A cancelled send that has left ends as soon as the network of the peer makes progress, not only when the peer
 * receives it. */
static void take_back(proc_t *p)
{
    message_t m[2], again;
    dma_status_t status;

    for (int i = 0; i < 2; i++) {
        m[i] = (message_t){.tag = {.comm = 3, .seq = (uint32_t)i}, .seed = (uint64_t)i, .bytes = 3 << 20};
        if (p->rank == 0) {
            send_one(p, 1, &m[i]);
        }
    }
    again = m[0];
    for (double end = proc_now() + 0.5; proc_now() < end;) {
        proc_turn(p);
    }
    if (p->rank == 0) {
        must(p, dma_ucx_test(p->net, &m[0].req) == DMA_AGAIN, "it has ended by itself");
        dma_ucx_cancel(p->net, m[0].req);
        status = proc_wait(p, &m[0].req, 5);
        must(p, status == DMA_OK || status == DMA_ERR_TRUNCATE, "taken back: %s", dma_status_name(status));
        free(m[0].buffer);
        send_one(p, 1, &again);
        atomic_store(&p->shared->flag[0], 1);
    } else {
        while (!atomic_load(&p->shared->flag[0])) {
            proc_turn(p);
        }
        receive_one(p, 0, &again);
        receive_one(p, 0, &m[1]);
    }
    finish_one(p, &again, p->rank);
    finish_one(p, &m[1], p->rank);
    proc_barrier(p);
}

START_TEST(a_send_is_taken_back)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 20};

    /* A message without a rendezvous ends by itself. From 1.18 on, UCX has no such messages over shared memory
     * unless it is told to. */
    setenv("UCX_RNDV_THRESH", "128k", 1);
    ck_assert_int_eq(procs_run(&spec, take_back), 0);
}
END_TEST

/* What nobody has received ends with its communicator, also if it arrives later. The sender of a rendezvous message
 * can go on. Communicators of another owner or number are not affected. */
static void leave(proc_t *p)
{
    static const dma_net_tag_t tags[] = {{.comm = 5, .owner = 1}, {.comm = 5, .owner = 2}, {.comm = 6, .owner = 1}};
    message_t m[6], last = {.tag = {.comm = 7}, .seed = 7, .bytes = 8};
    message_t late = {.tag = {.comm = 5, .owner = 1, .seq = 1}, .seed = 9, .bytes = 3 << 20};

    for (int i = 0; i < 6; i++) {
        m[i] = (message_t){.tag = tags[i / 2], .seed = (uint64_t)i, .bytes = i % 2 ? 3 << 20 : 300};
        if (p->rank == 0) {
            send_one(p, 1, &m[i]);
        }
    }
    /* Messages arrive in the order in which they are sent. */
    if (p->rank == 0) {
        send_one(p, 1, &last);
    } else {
        receive_one(p, 0, &last);
    }
    finish_one(p, &last, p->rank);
    if (p->rank == 1) {
        dma_ucx_comm_unregister(p->net, tags[0].comm, tags[0].owner);
        receive_one(p, 0, &m[0]);
        must(p, proc_wait(p, &m[0].req, 0.2) == DMA_AGAIN, "it came all the same");
        dma_ucx_cancel(p->net, m[0].req);
        must(p, proc_wait(p, &m[0].req, 1) == DMA_ERR_NET, "a receive that was cancelled");
        free(m[0].buffer);
    } else {
        dma_status_t status = proc_wait(p, &m[1].req, 10);

        must(p, status == DMA_OK || status == DMA_ERR_TRUNCATE, "a promise that was not accepted: %s",
             dma_status_name(status));
        must(p, proc_wait(p, &m[0].req, 10) == DMA_OK, "a small send");
        free(m[0].buffer);
        free(m[1].buffer);
        send_one(p, 1, &late);
        status = proc_wait(p, &late.req, 10);
        must(p, status == DMA_OK || status == DMA_ERR_TRUNCATE, "a promise that came too late: %s",
             dma_status_name(status));
        free(late.buffer);
    }
    for (int i = 2; i < 6; i++) {
        if (p->rank == 1) {
            receive_one(p, 0, &m[i]);
        }
        finish_one(p, &m[i], p->rank);
    }
    proc_barrier(p);
}

START_TEST(communicators_that_are_over)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, leave), 0);
}
END_TEST

#define THREADS 4
#define ROUNDS  60

typedef struct thread {
    proc_t p; /* its own random numbers */
    int number;
} thread_t;

static void *thread_main(void *arg)
{
    thread_t *t = arg;
    proc_t *p = &t->p;
    int other = 1 - p->rank;

    for (int i = 0; i < ROUNDS; i++) {
        message_t out = {.tag = {.comm = (uint32_t)t->number, .owner = (uint32_t)p->rank, .seq = (uint32_t)i},
                         .seed = (uint64_t)(i * 10 + t->number)};
        message_t in = out;

        in.bytes = out.bytes = (size_t)(i % 10 ? i * 300 : 600000);
        in.tag.owner = (uint32_t)other;
        if (proc_random(p, 2)) {
            receive_one(p, other, &in);
            send_one(p, other, &out);
        } else {
            send_one(p, other, &out);
            receive_one(p, other, &in);
        }
        finish_one(p, &in, true);
        finish_one(p, &out, false);
    }
    return NULL;
}

static void threads(proc_t *p)
{
    pthread_t ids[THREADS];
    thread_t args[THREADS];

    for (int i = 0; i < THREADS; i++) {
        args[i] = (thread_t){.p = *p, .number = i};
        args[i].p.random += (uint64_t)i * 77777;
        must(p, !pthread_create(&ids[i], NULL, thread_main, &args[i]), "no thread");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    proc_barrier(p);
}

START_TEST(threads_side_by_side)
{
    procs_spec_t spec = {.n = 2, .tls = transports[_i], .seconds = 50};

    ck_assert_int_eq(procs_run(&spec, threads), 0);
}
END_TEST

/* The last message before the end arrives, whichever side closes first. A peer that has left regularly is not
 * reported as failed. */
static void ends(proc_t *p)
{
    message_t out = {.tag = {.comm = 1}, .seed = 1, .bytes = 40000}, in = out;
    int next = (p->rank + 1) % p->n, previous = (p->rank + p->n - 1) % p->n;

    out.tag.owner = (uint32_t)p->rank;
    in.tag.owner = (uint32_t)previous;
    send_one(p, next, &out);
    receive_one(p, previous, &in);
    finish_one(p, &in, true);
    finish_one(p, &out, false);
    for (double end = proc_now() + 0.1 * (double)proc_random(p, 8); proc_now() < end;) {
        proc_turn(p);
    }
    must(p, !proc_failures(p), "a peer has failed");
}

/* As MPI_Finalize may leave it: one rank makes no progress any more while the others close. One rank was never connected. */
static void ends_without_progress(proc_t *p)
{
    message_t m = {.tag = {.comm = 1}, .seed = 1, .bytes = 1000};

    if (p->rank == 0) {
        send_one(p, 1, &m);
        finish_one(p, &m, false);
    } else if (p->rank == 1) {
        receive_one(p, 0, &m);
        finish_one(p, &m, true);
    }
    usleep((useconds_t)proc_random(p, 500000));
}

START_TEST(ends_in_any_order)
{
    procs_spec_t spec = {.n = 3, .tls = transports[_i % TRANSPORTS], .seconds = 20};

    ck_assert_int_eq(procs_run(&spec, ends), 0);
    ck_assert_int_eq(procs_run(&spec, ends_without_progress), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl");

    unit_loop(suite, messages_in_any_order, 0, 3, 45);
    unit_loop(suite, messages_before_their_receives, 0, TRANSPORTS, 25);
    unit_loop(suite, sizes_and_notes_that_differ, 0, TRANSPORTS, 35);
    unit_loop(suite, many_at_once, 0, TRANSPORTS, 45);
    unit_loop(suite, calls_that_cross, 0, TRANSPORTS, 25);
    unit_loop(suite, a_send_is_taken_back, 0, TRANSPORTS, 25);
    unit_loop(suite, communicators_that_are_over, 0, TRANSPORTS, 25);
    unit_loop(suite, threads_side_by_side, 0, TRANSPORTS, 55);
    unit_loop(suite, ends_in_any_order, 0, TRANSPORTS, 45);
    return unit_main(suite);
}
