/*
 * The set-up of communicators over several nodes, as far as it concerns networks and hosts: which ranks have a
 * network, which addresses are used, who may connect, how many files may be open.
 */
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/comm.h"
#include "libpart.h"
#include "libunit.h"
#include "libwire.h"

/* If one rank has no network, all ranks step aside. Opening takes long, and calls of other threads need the lock. */
static dma_status_t no_open(void **result)
{
    dma_proc_t *proc = (dma_proc_t *)((char *)result - offsetof(dma_proc_t, net));

    ck_assert_int_eq(pthread_mutex_trylock(&proc->lock), 0);
    pthread_mutex_unlock(&proc->lock);
    return wire_rank() == 2 ? DMA_UNSUPPORTED : wire_threads.open(result);
}

/* Of rank 0, and of the others. */
static void not_served(rank_t *r)
{
    const char *const *reasons = r->job->arg, *why = reasons[r->rank > 0];
    part_t p;

    part_open(r, &p, 100);
    must(r, dma_comm_prepare(p.comm) == DMA_UNSUPPORTED, "served");
    must(r, strstr(dma_comm_reason(p.comm), why) != NULL, "reason: %s", dma_comm_reason(p.comm));
    part_close(&p);
}

START_TEST(without_a_network)
{
    dma_net_ops_t partly = wire_threads;
    job_t job = part_job(4, part_alone, not_served, "auto");

    partly.open = no_open;
    job.net_ops = &partly;
    job.arg = (const char *[]){"no network", "no network"};
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_network_missing), 4);
}
END_TEST

static void served_once(rank_t *r)
{
    dma_call_t call;
    part_t p;

    part_open(r, &p, 100);
    threads_prepare(r, p.comm);
    call = part_call(r, &p, DMA_ALLGATHER, false, 100, 1);
    must(r, dma_comm_run(p.comm, &call) == DMA_OK, "a call: %s", dma_comm_reason(p.comm));
    part_check(r, &p, DMA_ALLGATHER, 100, 1);
    part_close(&p);
}

/* ---- addresses that several hosts have ---- */

enum { SHARED = 100, HOST = 200 }; /* the address of a bridge on every host; the address of a host's interface */

static _Atomic int excluded;
static bool nothing_left;

/* Rank 3, and ranks 4 and 5, are in two containers that use the network of their host. */
static void place_on_host(void *net, dma_net_place_t *place)
{
    int rank = *(int *)net, node = part_of_six[rank == 3 ? 4 : rank];

    wire_threads.get_place(net, place);
    place->space = (uint64_t)node;
    place->naddresses = place->nhost_addresses = 2;
    place->addresses[0] = HOST + (uint32_t)node;
    place->addresses[1] = SHARED;
}

static dma_status_t note_excluded(void *net, const uint32_t *addresses, uint32_t n)
{
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(addresses[0], SHARED);
    excluded++;
    return nothing_left && *(int *)net == 2 ? DMA_UNSUPPORTED : DMA_OK;
}

START_TEST(an_address_of_several_hosts)
{
    dma_net_ops_t places = wire_threads;
    job_t job = part_job(6, part_of_six, _i ? not_served : served_once, "auto");

    excluded = 0;
    nothing_left = _i;
    places.get_place = place_on_host;
    places.exclude = note_excluded;
    job.arg = (const char *[]){"only network addresses that other hosts have", "only network addresses that other"};
    job.net_ops = &places;
    part_run(&job);
    ck_assert_int_eq(excluded, 6);
    ck_assert_uint_eq(reasons_count(DMA_REASON_addresses_shared), _i ? 6 : 0);
}
END_TEST

/* ---- who may connect ---- */

static _Atomic unsigned admitted[6]; /* a bit for the address of each host; bit 7: the address that all hosts have */

static dma_status_t note_admitted(void *net, const uint32_t *addresses, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        admitted[*(int *)net] |= 1u << (addresses[i] == SHARED ? 7 : addresses[i] - HOST);
    }
    return *(int *)net == 2 ? DMA_UNSUPPORTED : DMA_OK;
}

static dma_status_t exclude_nothing(void *net, const uint32_t *addresses, uint32_t n)
{
    (void)net;
    (void)addresses;
    (void)n;
    return DMA_OK;
}

/* Only the other hosts may connect. Rank 3 and ranks 4 and 5 are different nodes on one host, and connect to each
 * other there. The kernel of rank 2 takes no filter: that is counted, and nothing else is different. */
START_TEST(who_may_connect)
{
    static const unsigned expected[] = {
        1 << 4, 1 << 4, 1 << 4, 1 | 1 << 4 | 1 << 7, 1 | 1 << 4 | 1 << 7, 1 | 1 << 4 | 1 << 7};
    dma_net_ops_t places = wire_threads;
    job_t job = part_job(6, part_of_six, served_once, "auto");

    memset((void *)admitted, 0, sizeof(admitted));
    places.get_place = place_on_host;
    places.exclude = exclude_nothing;
    places.admit = note_admitted;
    job.arg = (const char *[]){""};
    job.net_ops = &places;
    part_run(&job);
    for (int r = 0; r < 6; r++) {
        ck_assert_msg(admitted[r] == expected[r], "rank %d: %x, not %x", r, admitted[r], expected[r]);
    }
    ck_assert_uint_eq(reasons_count(DMA_REASON_net_filter_refused), 1);
}
END_TEST

/* ---- limits of open files ---- */

static int short_rank;

/* The limit of one rank is one file less than its connections, as many files for Open MPI, the ranks of its node,
 * and 12 need. */
static void place_with_limit(void *net, dma_net_place_t *place)
{
    int rank = *(int *)net, here = 0;

    wire_threads.get_place(net, place);
    for (int r = 0; r < 6; r++) {
        here += part_of_six[r] == part_of_six[rank];
    }
    place->descriptors = 2u * (6 - (unsigned)here) + (unsigned)here + 12 - (rank == short_rank);
}

static bool all_connected(void *net, void *comm, int rank)
{
    (void)net;
    (void)comm;
    (void)rank;
    return true;
}

/* One rank may open too few files: all step aside, unless all ranks are connected already. */
START_TEST(too_few_descriptors)
{
    dma_net_ops_t places = wire_threads;
    job_t job = part_job(6, part_of_six, _i == 1 ? not_served : served_once, "auto");

    short_rank = _i ? 4 : -1;
    places.get_place = place_with_limit;
    places.is_connected = _i == 2 ? all_connected : places.is_connected;
    job.arg = (const char *[]){"limit of open files", "limit of open files"};
    job.net_ops = &places;
    part_run(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_descriptors), _i == 1 ? 6 : 0);
}
END_TEST

/* The network does not connect rank 4 with a neighbor: all ranks step aside, and no rank waits for an exchange of
 * addresses. */
static dma_status_t not_from_4(void *net, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req)
{
    return wire_rank() == 0 && *(int *)peer == 4 ? DMA_ERR_PEER : wire_threads.irecv(net, peer, tag, buf, bytes, req);
}

/* Rank 0 learns about rank 4 before it has connected to the next neighbor. */
static dma_status_t heard_at_once(void *comm, void **req)
{
    dma_status_t status;

    while ((status = wire_threads.address_test(comm, req)) == DMA_AGAIN && wire_rank() == 0) {
        sched_yield();
    }
    return status;
}

START_TEST(neighbours_that_are_not_connected)
{
    dma_net_ops_t partly = wire_threads;
    job_t job = part_job(6, part_of_six, not_served, "auto");

    partly.irecv = not_from_4;
    job.arg = (const char *[]){"no connection to rank 4", "cannot reach"};
    partly.address_test = heard_at_once;
    wire_address_bytes = _i ? WIRE_LONG_ADDRESS : 0;
    job.net_ops = &partly;
    part_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_no_connection), 0);
}
END_TEST

/* Rank 4 has said goodbye in an earlier session and has opened its network again. The others cannot reach it. */
static bool closed_before(void *net, void *peer)
{
    (void)net;
    return *(int *)peer == 4;
}

static dma_status_t refuse_4(void *net, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req)
{
    return *(int *)peer == 4 ? DMA_ERR_PEER : wire_threads.irecv(net, peer, tag, buf, bytes, req);
}

START_TEST(a_neighbour_that_has_closed_before)
{
    dma_net_ops_t closed = wire_threads;
    job_t job = part_job(6, part_of_six, not_served, "auto");

    closed.peer_closed = closed_before;
    closed.irecv = refuse_4;
    job.arg = (const char *[]){"no connection to rank 4", ""};
    job.net_ops = &closed;
    part_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_no_connection), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_hosts");

    unit_test(suite, without_a_network, 30);
    unit_loop(suite, an_address_of_several_hosts, 0, 2, 30);
    unit_loop(suite, neighbours_that_are_not_connected, 0, 2, 30);
    unit_test(suite, a_neighbour_that_has_closed_before, 30);
    unit_loop(suite, too_few_descriptors, 0, 3, 30);
    unit_test(suite, who_may_connect, 30);
    return unit_main(suite);
}
