/*
 * Scratch memory in place of memory that the engines cannot use where it is (device/scratch.c): which calls the engines
 * serve with it, what that costs, and what happens when it cannot be had.
 */
#include <string.h>

#include "device/device.h"
#include "libengine_call.h"
#include "libodd.h"
#include "libunit.h"

enum { RANKS = 3 };

static unsigned runs_of(const rank_t *r)
{
    return call_runs(r->comms[0]);
}

static void served(rank_t *r)
{
    const odd_t *odd = r->job->arg;
    uint64_t tag = 1;

    odd_begin(r, r->comms[0]);
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (size_t bytes = 30; bytes < 30000; bytes *= 30) {
                call_spec_t spec = odd_spec(r, odd, (dma_coll_t)coll, in_place, bytes);
                unsigned ran = runs_of(r);
                call_t *c;

                if (in_place && spec.recv == PLACE_HOST) {
                    continue; /* all ranks: no device memory is left */
                }
                c = call_make(r, &spec);
                for (int i = 0; i < 3; i++) {
                    call_run(r, r->comms[0], c, ++tag);
                }
                must(r, runs_of(r) == ran + 3, "coll %d, in place %d, %zu bytes: not by the engine", coll, in_place,
                     bytes);
                threads_barrier(r);
                call_free(c);
            }
        }
    }
}

static void run_served(odd_t odd)
{
    engine_options_t options = {.seed = unit_seed(), .max_ways = 16};
    job_t job = call_job(RANKS, served, &options);

    job.arg = &odd;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}

START_TEST(engines_serve_all_ranks_odd)
{
    unsigned staged = fake_gpu_calls("copy");

    run_served((odd_t){.which = _i, .all = true});
    ck_assert_uint_eq(fake_gpu_calls("copy"), staged);
}
END_TEST

START_TEST(engines_serve_one_rank_odd)
{
    if (odd_places[_i].recv == PLACE_HOST) {
        return; /* in place that rank is one of the host */
    }
    run_served((odd_t){.which = _i});
}
END_TEST

/* Shapes and odd memory together; test_device_shape has an engine that copies between shapes. */
START_TEST(blocks_with_shapes)
{
    run_served((odd_t){.which = _i, .all = true, .vector = true});
}
END_TEST

/* ---- what it costs ---- */

static void costs(rank_t *r)
{
    const odd_t odd = {.which = 1, .all = true};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLGATHER, false, 1000);
    call_t *c = call_make(r, &spec);
    unsigned allocs, copies, repeats;
    enum { CALLS = 50 };

    odd_begin(r, r->comms[0]);
    for (int i = 0; i < 3; i++) {
        call_run(r, r->comms[0], c, (uint64_t)(10 + i));
    }
    threads_barrier(r);
    allocs = fake_gpu_calls("alloc");
    copies = fake_gpu_calls("copy_async");
    repeats = engine_repeats();
    threads_barrier(r);
    for (int i = 0; i < CALLS; i++) {
        call_run(r, r->comms[0], c, (uint64_t)(20 + i));
    }
    threads_barrier(r);
    must(r, fake_gpu_calls("alloc") == allocs, "allocates in every call");
    /* each rank copies what it has received to its place, all blocks at once */
    must(r, fake_gpu_calls("copy_async") - copies <= CALLS * RANKS, "%u copies", fake_gpu_calls("copy_async") - copies);
    must(r, engine_repeats() - repeats >= CALLS, "equal calls are not repeated");
    threads_barrier(r);
    call_free(c);
}

START_TEST(equal_calls_cost_their_copies)
{
    job_t job = call_job(RANKS, costs, NULL);

    call_run_job(&job);
}
END_TEST

/* ---- what can fail ---- */

static void without(rank_t *r)
{
    const odd_t odd = {.which = 1};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLTOALL, false, 4000);
    call_t *c = call_make(r, &spec);
    unsigned ran;

    odd_begin(r, r->comms[0]);
    ran = runs_of(r);
    if (r->rank == 1) {
        const dma_status_t *status = r->job->arg;

        fake_gpu_fail("alloc", 0, *status);
    }
    threads_barrier(r);
    call_run(r, r->comms[0], c, 2);
    must(r, runs_of(r) == ran, "the engine ran without scratch memory");
    call_run(r, r->comms[0], c, 3); /* now there is memory */
    must(r, runs_of(r) == ran + 1, "not by the engine");
    threads_barrier(r);
    call_free(c);
}

START_TEST(device_is_full)
{
    dma_status_t status = _i ? DMA_ERR_ENGINE : DMA_ERR_NOMEM;
    job_t job = call_job(RANKS, without, NULL);

    job.arg = &status;
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_staged_scratch), 1);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

static void breaks(rank_t *r)
{
    const odd_t odd = {.which = 1};
    call_spec_t spec = odd_spec(r, &odd, DMA_ALLGATHER, false, 4000);
    call_t *c = call_make(r, &spec);
    dma_status_t status;

    odd_begin(r, r->comms[0]);
    call_run(r, r->comms[0], c, 2);
    threads_barrier(r);
    if (r->rank == 1) {
        fake_gpu_fail("copy_async", 0, DMA_ERR_ENGINE);
    }
    threads_barrier(r);
    status = call_try(r, r->comms[0], c, 3);
    must(r, status == DMA_ERR_ENGINE || r->rank != 1, "%s", dma_status_name(status));
    threads_barrier(r);
    call_free(c);
}

START_TEST(copy_out_fails)
{
    job_t job = call_job(RANKS, breaks, NULL);

    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_scratch");

    unit_loop(suite, engines_serve_all_ranks_odd, 0, ODD_PLACES, 60);
    unit_loop(suite, engines_serve_one_rank_odd, 0, ODD_PLACES, 60);
    unit_loop(suite, blocks_with_shapes, 0, ODD_PLACES, 60);
    unit_test(suite, equal_calls_cost_their_copies, 30);
    unit_loop(suite, device_is_full, 0, 2, 30);
    unit_test(suite, copy_out_fails, 30);
    return unit_main(suite);
}
