/*
 * Device memory that goes through host memory (device/stage.c) by way of pinned memory (device/pins.c): data, what a call
 * costs, and how much is pinned.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

#define KIB UINT64_C(1024)

enum { RANKS = 3 };

/* ---- the data ---- */

/* All operations, with blocks of several sizes, regular or not. Some ranks have host memory. */
static void random_calls(rank_t *r)
{
    uint64_t tag = 1;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < 48; i++) {
        size_t elements = i % 3 == 0 ? 50 : i % 3 == 1 ? 30000 : 400000;
        call_spec_t spec = {.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                            .in_place = i / 4 % 2,
                            .sizes = (uint64_t)i,
                            .elements = elements,
                            .send = (call_place_t)threads_random(r, PLACES),
                            .recv = (call_place_t)threads_random(r, PLACES)};
        call_t *c;

        spec.vector = i / 5 % 3 == 0 && elements < 100000;
        c = call_make(r, &spec);
        call_run(r, r->comms[0], c, ++tag);
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        call_free(c);
    }
    must(r, call_counted(r, DMA_COUNT_pinned_most) <= r->proc->params.pinned_bytes, "%lu bytes pinned",
         call_counted(r, DMA_COUNT_pinned_most));
}

START_TEST(mixtures)
{
    static const uint64_t bounds[] = {0, 1, 300 * KIB, 1024 * KIB, 4096 * KIB, UINT64_MAX};
    job_t job;

    call_streams_late(_i % 2 ? 200 : 0);
    job = call_job_without_engine(RANKS, random_calls, NULL);
    job.params.pinned_bytes = bounds[_i];
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- what a call costs ---- */

typedef struct cost {
    dma_coll_t coll;
    size_t bytes;
    uint64_t bound;
    unsigned copies, waits; /* at most, of all ranks in each call */
    bool host; /* rank 0 has host memory and does not join: else large calls go by shared slots (test_device_slots) */
} cost_t;

static void costs(rank_t *r)
{
    static const char *const free_of[] = {"alloc",         "free",         "host_register", "host_unregister",
                                          "stream_create", "event_create", "copy"};
    enum { CALLS = 6, KINDS = sizeof(free_of) / sizeof(free_of[0]) };
    const cost_t *cost = r->job->arg;
    call_place_t place = cost->host && r->rank == 0 ? PLACE_HOST : PLACE_DEVICE;
    call_spec_t spec = {.coll = cost->coll, .sizes = 3, .elements = cost->bytes, .send = place, .recv = place};
    call_t *c = call_make(r, &spec);
    unsigned before[KINDS], copies, waits;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    atomic_store(&r->comms[0]->joins, 0);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        before[i] = fake_gpu_calls(free_of[i]);
    }
    copies = fake_gpu_calls("copy_async");
    waits = fake_gpu_calls("stream_sync");
    threads_barrier(r);
    for (uint64_t i = 0; i < CALLS; i++) {
        atomic_store(&r->comms[0]->joins, 0);
        call_run(r, r->comms[0], c, 3 + i);
    }
    threads_barrier(r);
    for (int i = 0; i < KINDS; i++) {
        must(r, fake_gpu_calls(free_of[i]) == before[i], "%u calls of %s", fake_gpu_calls(free_of[i]) - before[i],
             free_of[i]);
    }
    copies = fake_gpu_calls("copy_async") - copies;
    waits = fake_gpu_calls("stream_sync") - waits;
    must(r, copies <= CALLS * cost->copies && copies > 0, "%u copies in %d calls", copies, CALLS);
    must(r, waits <= CALLS * cost->waits, "%u waits in %d calls", waits, CALLS);
    must(r, fake_gpu_pinned_most() <= RANKS * cost->bound, "%lu bytes pinned", fake_gpu_pinned_most());
    threads_barrier(r);
    call_free(c);
}

/* Each rank copies what it sends and what it receives. If it fits into a slot, each of the two takes one copy and one wait. If not,
 * it takes one copy for each slot, and one wait for the last one that is written. */
static const cost_t cost_list[] = {
    {DMA_ALLGATHER, 100000, 16384 * KIB, 2 * RANKS, 2 * RANKS, false},
    {DMA_ALLTOALL, 100000, 16384 * KIB, 2 * RANKS, 2 * RANKS, false},
    {DMA_ALLTOALLV, 100000, 16384 * KIB, 2 * RANKS *RANKS, 2 * RANKS, false},
    {DMA_ALLTOALL, 400000, 1024 * KIB, (RANKS - 1) * 6, (RANKS - 1) * 2, true},
    {DMA_ALLTOALL, 400000, 256 * KIB, (RANKS - 1) * 22, (RANKS - 1) * 2, true},
};

START_TEST(calls_cost_their_copies)
{
    job_t job;

    call_streams_late(50);
    job = call_job_without_engine(RANKS, costs, &cost_list[_i]);
    job.params.pinned_bytes = cost_list[_i].bound;
    call_run_job(&job);
}
END_TEST

/* ---- the slots ---- */

/* The runtime copies into one slot while the processor copies out of the other: a second copy is started before the first
 * has been waited for. */
static void overlapping(rank_t *r)
{
    const dma_gpu_runtime_t *rt = r->job->runtime;
    dma_lease_t *pin = dma_pin_get_slots(r->proc, rt, 0);
    uint64_t slot, bytes;
    char *device, *host;
    unsigned copies;
    dma_gpu_scope_t scope;

    must(r, pin && pin->bytes == 512 * KIB, "%lu bytes for slots", pin ? pin->bytes : 0);
    slot = pin->bytes / 2;
    bytes = 5 * slot + 12345;
    device = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, bytes);
    host = malloc(bytes);
    threads_keep(r, host);
    data_fill((uint8_t *)device, 1, 0, bytes);
    must(r, rt->enter(0, &scope) == DMA_OK, "scope");
    must(r, dma_pin_read(pin, host, device, bytes) == DMA_OK, "read");
    must(r, !memcmp(host, device, bytes), "wrong data read");
    must(r, fake_gpu_calls("copy_async") == 6, "%u copies", fake_gpu_calls("copy_async"));
    data_fill((uint8_t *)host, 2, 0, bytes);
    must(r, dma_pin_write(pin, device, host, bytes) == DMA_OK, "write");
    must(r, !memcmp(host, device, bytes), "wrong data written");
    copies = fake_gpu_calls("copy_async");
    must(r, copies == 12, "%u copies", copies - 6);
    /* the second copy fails before the first has been waited for */
    fake_gpu_fail("event_query", 0, DMA_ERR_ENGINE);
    must(r, dma_pin_read(pin, host, device, bytes) == DMA_ERR_ENGINE, "the error is lost");
    must(r, fake_gpu_calls("copy_async") == copies + 2, "%u copies under way", fake_gpu_calls("copy_async") - copies);
    dma_lease_give_back(r->proc, pin);
    must(r, rt->stream_query(pin->stream[0]) == DMA_OK, "copies are under way");
    rt->leave(&scope);
    fake_gpu_free(device);
}

START_TEST(two_slots)
{
    job_t job;

    call_streams_late(5000);
    job = call_job_without_engine(1, overlapping, NULL);
    job.params.pinned_bytes = 600 * KIB;
    call_run_job(&job);
}
END_TEST

/* ---- what can fail ---- */

static void breaks(rank_t *r)
{
    static const char *const functions[] = {"copy_async", "event_query", "event_record"};
    const int *which = r->job->arg;
    call_spec_t spec = {
        .coll = DMA_ALLTOALL, .elements = 300000, .send = PLACE_DEVICE, .recv = PLACE_DEVICE, .sizes = 1};
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail(functions[*which % 3], (unsigned)*which / 3, DMA_ERR_ENGINE);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 2);
    must(r, status == DMA_OK || status == DMA_ERR_ENGINE, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

START_TEST(copies_fail)
{
    job_t job;

    call_streams_late(1000);
    job = call_job_without_engine(RANKS, breaks, &_i);
    job.params.pinned_bytes = 512 * KIB;
    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_staged");

    unit_loop(suite, mixtures, 0, 6, 120);
    unit_loop(suite, calls_cost_their_copies, 0, sizeof(cost_list) / sizeof(cost_list[0]), 60);
    unit_test(suite, two_slots, 30);
    unit_loop(suite, copies_fail, 0, 12, 60);
    return unit_main(suite);
}
