/*
 * Processes that send and leave before their receiver knows them. The receiver makes progress meanwhile, so that it has their
 * messages, and their goodbye, before it creates the peer. A process that has closed is not connected, because nobody listens
 * there any more. A process that has opened its network again is.
 */
#include <check.h>
#include <stdlib.h>

#include "../ucx/procs.h"
#include "internal.h"
#include "libunit.h"

static const char *const transports[] = {"tcp", "posix,sysv"};
#define TRANSPORTS 2

enum { CLOSED, RECEIVED };

static procs_spec_t spec_of(int transport)
{
    return (procs_spec_t){.n = 2, .tls = transports[transport], .keepalive = 2, .seconds = 20, .strangers = true};
}

enum { N = 4, BYTES = 5000 };
static const size_t lengths[N] = {0, 8, BYTES, 100};

static void send_all(proc_t *p, uint32_t comm)
{
    char buffer[BYTES];

    proc_create_peer(p, 0);
    for (uint32_t i = 0; i < N; i++) {
        dma_net_tag_t tag = {.comm = comm, .seq = i};
        dma_ucx_req_t *req;

        proc_fill(buffer, lengths[i], i);
        must(p, dma_ucx_isend(p->net, p->peers[0], &tag, buffer, lengths[i], &req) == DMA_OK, "send %u", i);
        must(p, proc_wait(p, &req, 10) == DMA_OK, "send %u", i);
    }
}

static void receive_all(proc_t *p, uint32_t comm)
{
    char buffer[BYTES];

    for (uint32_t i = 0; i < N; i++) {
        dma_net_tag_t tag = {.comm = comm, .seq = i};
        dma_ucx_req_t *req;
        dma_status_t status = dma_ucx_irecv(p->net, p->peers[1], &tag, buffer, lengths[i], &req);

        must(p, status == DMA_OK, "receive %u: %s", i, dma_status_name(status));
        must(p, proc_wait(p, &req, 10) == DMA_OK, "message %u is lost", i);
        must(p, proc_right(buffer, lengths[i], i), "message %u is wrong", i);
    }
}

/* Progress until the other process has set the flag, and what it has sent before is here. */
static void await(proc_t *p, int flag)
{
    while (!atomic_load(&p->shared->flag[flag])) {
        proc_turn(p);
    }
    for (double end = proc_patience(p) + 0.3; proc_patience(p) < end;) {
        proc_turn(p);
    }
}

static void receive_from_the_closed(proc_t *p)
{
    dma_net_tag_t tag = {.comm = 1, .seq = N};
    dma_ucx_req_t *req;
    char byte = 0;

    proc_create_peer(p, 1);
    must(p, dma_ucx_peer_closed(p->peers[1]), "its goodbye is lost");
    receive_all(p, 1);
    must(p, dma_ucx_irecv(p->net, p->peers[1], &tag, &byte, 1, &req) == DMA_ERR_PEER, "another message is awaited");
    must(p, dma_ucx_isend(p->net, p->peers[1], &tag, &byte, 1, &req) == DMA_ERR_PEER, "a message to one who has left");
    must(p, !p->peers[1]->ep, "connected to one who has left");
}

static void leaves(proc_t *p)
{
    if (p->rank == 1) {
        send_all(p, 1);
        proc_close(p);
        atomic_store(&p->shared->flag[CLOSED], 1);
        return;
    }
    await(p, CLOSED);
    receive_from_the_closed(p);
}

START_TEST(a_sender_leaves_before_it_is_known)
{
    procs_spec_t spec = spec_of(_i);

    ck_assert_int_eq(procs_run(&spec, leaves), 0);
}
END_TEST

/* Two goodbyes are one peer. What the process sent before the second one is there. */
static void leaves_twice(proc_t *p)
{
    procs_spec_t spec = spec_of(*(const int *)p->arg);

    if (p->rank == 1) {
        send_all(p, 2);
        proc_close(p);
        proc_open(p, &spec);
        send_all(p, 1);
        proc_close(p);
        atomic_store(&p->shared->flag[CLOSED], 1);
        return;
    }
    while (!proc_knows(p, 1)) {
        proc_turn(p);
    }
    proc_barrier(p);
    await(p, CLOSED);
    receive_from_the_closed(p);
}

START_TEST(a_sender_leaves_twice)
{
    procs_spec_t spec = spec_of(_i);

    spec.arg = &(int){_i};
    ck_assert_int_eq(procs_run(&spec, leaves_twice), 0);
}
END_TEST

/* The peer is created when the process has opened its network again. */
static void comes_back(proc_t *p)
{
    procs_spec_t spec = spec_of(*(const int *)p->arg);

    if (p->rank == 1) {
        send_all(p, 1);
        proc_close(p);
        proc_open(p, &spec);
        send_all(p, 2);
        while (!atomic_load(&p->shared->flag[RECEIVED])) {
            proc_turn(p);
        }
        return;
    }
    while (!proc_knows(p, 1)) {
        proc_turn(p);
    }
    proc_barrier(p); /* the other one is open again */
    proc_create_peer(p, 1);
    must(p, !dma_ucx_peer_closed(p->peers[1]), "the goodbye of its former network counts");
    receive_all(p, 2);
    must(p, proc_connect(p, 1) == DMA_OK, "not connected");
    atomic_store(&p->shared->flag[RECEIVED], 1);
}

START_TEST(a_sender_comes_back)
{
    procs_spec_t spec = spec_of(_i);

    spec.arg = &(int){_i};
    ck_assert_int_eq(procs_run(&spec, comes_back), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ucx_tl_goodbye");

    unit_loop(suite, a_sender_leaves_before_it_is_known, 0, TRANSPORTS, 25);
    unit_loop(suite, a_sender_leaves_twice, 0, TRANSPORTS, 25);
    unit_loop(suite, a_sender_comes_back, 0, TRANSPORTS, 25);
    return unit_main(suite);
}
