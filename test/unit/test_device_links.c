/*
 * Calls in pinned and managed memory: large ones are carried out by engines, in pieces of scratch memory, and the device
 * copies the pieces from and to the host (device/resolve.c, device/scratch.c). Data, when it is done, and what is held.
 */
#include <string.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

#define MIB (UINT64_C(1) << 20)

enum { RANKS = 3, LARGE = 2200000 };

typedef struct links {
    call_place_t send, recv;
    call_place_t first; /* both sides of rank 0; PLACES: as the others */
    size_t bytes;       /* of a block */
    bool vector;
    bool pieces; /* engines carry the calls out */
} links_t;

static void calls(rank_t *r)
{
    const links_t *links = r->job->arg;
    bool other = r->rank == 0 && links->first != PLACES;
    uint64_t tag = 0, cores;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < 4; i++) {
        call_spec_t spec = {.coll = i < 2 ? DMA_ALLGATHER : DMA_ALLTOALL,
                            .in_place = i % 2 && links->send != PLACE_HOST,
                            .elements = links->bytes,
                            .vector = links->vector,
                            .send = other ? links->first : links->send,
                            .recv = other ? links->first : links->recv};
        call_t *c = call_make(r, &spec);

        cores = call_counted(r, DMA_COUNT_bytes_cores);
        call_run(r, r->comms[0], c, ++tag);
        call_run(r, r->comms[0], c, ++tag);
        must(r, (call_counted(r, DMA_COUNT_bytes_cores) == cores) == links->pieces, "call %d: cores have copied", i);
        threads_barrier(r);
        call_free(c);
    }
    must(r, call_counted(r, DMA_COUNT_calls_pieces) == (links->pieces ? 8 : 0), "%lu calls in pieces",
         call_counted(r, DMA_COUNT_calls_pieces));
    must(r, call_counted(r, DMA_COUNT_calls_staged) == 0, "staged");
    must(r, call_counted(r, DMA_COUNT_scratch_most) <= r->proc->params.scratch_bytes, "%lu bytes held",
         call_counted(r, DMA_COUNT_scratch_most));
}

static job_t links_job(const links_t *links)
{
    job_t job = call_job(RANKS, calls, NULL);

    job.arg = links;
    job.own_counters = true;
    return job;
}

/* Pinned, managed, both; and memory of the device on one rank, which takes part as it would otherwise. */
START_TEST(by_engines)
{
    static const links_t list[] = {
        {PLACE_PINNED, PLACE_PINNED, PLACES, LARGE, false, true},
        {PLACE_MANAGED, PLACE_MANAGED, PLACES, LARGE, false, true},
        {PLACE_PINNED, PLACE_MANAGED, PLACES, LARGE, false, true},
        {PLACE_PINNED, PLACE_PINNED, PLACE_DEVICE, LARGE, false, true},
        {PLACE_MANAGED, PLACE_MANAGED, PLACE_FINE, LARGE, false, true},
    };
    job_t job;

    call_streams_late(_i % 2 ? 1000 : 50);
    job = links_job(&list[_i / 2]);
    job.params.scratch_bytes = _i % 2 ? 3 * MIB : job.params.scratch_bytes;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* Small calls, blocks that are not contiguous, and calls beside a rank with pageable memory: cores copy, and nothing is copied
 * to a device and back. */
START_TEST(by_cores)
{
    static const links_t list[] = {
        {PLACE_PINNED, PLACE_PINNED, PLACES, 300000, false, false},
        {PLACE_PINNED, PLACE_PINNED, PLACES, 100000, true, false},
        {PLACE_PINNED, PLACE_PINNED, PLACE_HOST, LARGE, false, false},
        {PLACE_MANAGED, PLACE_MANAGED, PLACE_HOST, LARGE, false, false},
        {PLACE_HOST, PLACE_PINNED, PLACES, LARGE, false, false},
        {PLACE_PINNED, PLACE_HOST, PLACES, LARGE, false, false},
    };
    job_t job = links_job(&list[_i]);

    call_run_job(&job);
    ck_assert_uint_eq(fake_gpu_calls("copy_async"), 0);
    ck_assert_uint_eq(fake_gpu_calls("copy"), 0);
}
END_TEST

/* Without scratch memory cores copy, and nothing is staged. */
static void none(int rank, dma_params_t *params)
{
    params->scratch_bytes = rank == 1 ? 0 : params->scratch_bytes;
}

START_TEST(without_scratch_memory)
{
    static const links_t links = {PLACE_PINNED, PLACE_PINNED, PLACES, LARGE, false, false};
    job_t job = links_job(&links);

    job.tune = none;
    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_links");

    unit_loop(suite, by_engines, 0, 10, 120);
    unit_loop(suite, by_cores, 0, 6, 60);
    unit_test(suite, without_scratch_memory, 60);
    return unit_main(suite);
}
