/*
 * Calls in device memory, with ranks, devices and engines that are threads: what comes out, for all operations and all
 * mixtures of memory. What goes wrong is in test_device_errors.c, persistent calls are in test_device_persistent.c. Meant
 * to be run plain and under the address and thread sanitizers.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libunit.h"

static void prepare(rank_t *r, dma_comm_t *comm)
{
    dma_status_t status = dma_comm_prepare(comm);

    must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(comm));
}

/* ---- all ranks have device memory ---- */

/* Every operation, out of place and in place, small and of several pieces, again and again in the same memory. */
static void all_operations(rank_t *r)
{
    static const size_t sizes[] = {1, 200, 4096, 30000};
    dma_comm_t *comm = r->comms[0];
    uint64_t tag = 0;
    uint32_t least = 0; /* with different blocks a rank may have none, and so no device memory */

    prepare(r, comm);
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (int s = 0; s < 4; s++) {
                call_spec_t spec = {.coll = (dma_coll_t)coll,
                                    .in_place = in_place,
                                    .sizes = tag,
                                    .elements = sizes[s],
                                    .send = PLACE_DEVICE,
                                    .recv = PLACE_DEVICE};
                call_t *c = call_make(r, &spec);

                for (int k = 0; k < 3; k++) {
                    call_run(r, comm, c, ++tag);
                    least += coll == DMA_ALLGATHER || coll == DMA_ALLTOALL;
                }
                threads_barrier(r); /* peers' engines write to it until then: as MPI_Free would have to wait */
                call_free(c);
            }
        }
    }
    must(r, call_runs(comm) >= least, "%u of at least %u calls were the engine's", call_runs(comm), least);
}

static const char *const gpu_variants[] = {"auto", "pcpy", "b2b", "bcst", "swap", "halves"};

START_TEST(all_device)
{
    for (int n = 2; n <= 5; n++) {
        engine_options_t options = {.seed = unit_seed() + (uint64_t)n,
                                    .features = n % 2 ? 0 : DMA_GPU_SWAP_PACKETS | DMA_GPU_BCST_PACKETS,
                                    .max_ways = 16,
                                    .again = n == 3};
        job_t job = call_job(n, all_operations, &options);

        snprintf(job.params.gpu_variant, sizeof(job.params.gpu_variant), "%s", gpu_variants[_i]);
        call_run_job(&job);
        ck_assert_int_eq(reports_count("open") + reports_count("bind") + reports_count("device off"), 0);
    }
}
END_TEST

/* ---- mixtures ---- */

/* Bit r of the job's argument: rank r has device memory. */
static void by_mask(rank_t *r)
{
    const unsigned *mask = r->job->arg;
    call_place_t place = *mask >> r->rank & 1 ? PLACE_DEVICE : PLACE_HOST;
    uint64_t tag = 0;

    prepare(r, r->comms[0]);
    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            for (size_t bytes = 40; bytes < 20000; bytes = bytes * 22 + 1) { /* the last ones are worth reading */
                call_spec_t spec = {.coll = (dma_coll_t)coll,
                                    .in_place = in_place,
                                    .sizes = tag,
                                    .elements = bytes,
                                    .send = place,
                                    .recv = place};
                call_t *c = call_make(r, &spec);

                call_run(r, r->comms[0], c, ++tag);
                call_run(r, r->comms[0], c, ++tag);
                threads_barrier(r);
                call_free(c);
            }
        }
    }
    must(r, *mask + 1 == 1u << r->n || call_runs(r->comms[0]) == 0, "the engine has run without all ranks");
}

START_TEST(every_mixture)
{
    int n = 2 + _i % 3;

    for (unsigned mask = 0; mask < 1u << n; mask++) {
        job_t job = call_job(n, by_mask, NULL);

        job.arg = &mask;
        snprintf(job.params.variant, sizeof(job.params.variant), "%s", _i < 3 ? "auto" : "host_reach");
        call_run_job(&job);
        ck_assert_int_eq(reports_count("failed"), 0);
    }
}
END_TEST

/* A rank that has been refused memory says so, also where its first entry is of device memory: all do without, or none. */
START_TEST(mixtures_refused)
{
    int n = 2 + _i;

    for (unsigned mask = 0; mask + 1 < 1u << n; mask++) {
        job_t job = call_job(n, by_mask, NULL);

        job.arg = &mask;
        snprintf(job.params.variant, sizeof(job.params.variant), "host_reach");
        fail_cross_after = n * (n - 1) + (int)mask; /* the probes of the set-up succeed */
        fail_cross_once = true;                     /* nobody else tells */
        call_run_job(&job);
        fail_cross_after = -1;
        fail_cross_once = false;
        ck_assert_uint_ge(reasons_count(DMA_REASON_cross_refused), (unsigned long)n + 1); /* who is refused, and all */
        ck_assert_int_eq(reports_count("failed"), 0);
        ck_assert_int_eq(reports_count("refused"), 1);
        ck_assert_int_eq(reports_count("refusals"), n);
    }
}
END_TEST

/* Each rank draws what its two sides are, and the type, call by call. */
static void any_kind(rank_t *r)
{
    prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 60; tag++) {
        uint64_t h = (tag * 7 + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
        call_spec_t spec = {.coll = (dma_coll_t)(h >> 62),
                            .in_place = h >> 61 & 1,
                            .sizes = tag,
                            .elements = (h >> 40) % (h >> 60 & 1 ? 30000 : 300),
                            .vector = threads_random(r, 4) == 0,
                            .send = (call_place_t)threads_random(r, PLACES),
                            .recv = (call_place_t)threads_random(r, PLACES)};
        call_t *c;

        if (threads_random(r, 3)) {
            spec.send = spec.recv = PLACE_DEVICE;
        }
        /* blocks have as many bytes for all: elements of three, or not */
        if (spec.vector && spec.coll != DMA_ALLGATHERV && spec.coll != DMA_ALLTOALLV) {
            spec.elements /= 3;
        } else if (spec.coll != DMA_ALLGATHERV && spec.coll != DMA_ALLTOALLV) {
            spec.elements = spec.elements / 3 * 3;
        } else {
            spec.vector = h >> 59 & 1;
        }
        c = call_make(r, &spec);
        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        call_free(c);
    }
}

START_TEST(kinds_and_types)
{
    job_t job = call_job(2 + _i % 3, any_kind, NULL);

    job.params.cross_memory = _i % 2;
    job.params.chunk_bytes = 4096;
    call_run_job(&job);
}
END_TEST

/* ---- what ranks remember of each other ---- */

enum { SETS = DEVICE_SLOTS + 9 };

/* More buffers than ranks keep open of each other: all ranks replace the same ones. In between there is a call with host memory on
 * one rank, in which no rank gets to know the new memory of the others. */
static void more_memory_than_slots(rank_t *r)
{
    static const call_spec_t device = {.coll = DMA_ALLGATHER, .elements = 300, .send = 1, .recv = 1};
    static const call_spec_t host = {.coll = DMA_ALLGATHER, .elements = 300, .send = 0, .recv = 0};
    call_t *sets[SETS], *on_host = call_make(r, &host);
    uint64_t tag = 0;

    prepare(r, r->comms[0]);
    for (int i = 0; i < SETS; i++) {
        sets[i] = call_make(r, &device);
    }
    for (int k = 0; k < 600; k++) {
        uint64_t h = ((uint64_t)k + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
        bool mixed = h >> 61 == 0;

        /* mostly the same few, each rank in an order of its own */
        call_t *c = sets[threads_random(r, threads_random(r, 3) ? 5 : SETS)];

        call_run(r, r->comms[0], mixed && r->rank == (int)(h >> 8) % r->n ? on_host : c, ++tag);
    }
    threads_barrier(r);
    for (int i = 0; i < SETS; i++) {
        call_free(sets[i]);
    }
    call_free(on_host);
    must(r, call_runs(r->comms[0]) > 400, "the engine has run %u times", call_runs(r->comms[0]));
}

START_TEST(slots_in_lock_step)
{
    job_t job = call_job(2 + _i, more_memory_than_slots, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("open"), 0);
}
END_TEST

/* The first use of memory was with ranks that had none: the others have not learned of it then. */
static void new_memory_in_a_mixed_call(rank_t *r)
{
    static const call_spec_t device = {.coll = DMA_ALLGATHER, .elements = 500, .send = 1, .recv = 1};
    static const call_spec_t host = {.coll = DMA_ALLGATHER, .elements = 500, .send = 0, .recv = 0};
    call_t *a = call_make(r, &device), *b = call_make(r, &device), *h = call_make(r, &host);

    prepare(r, r->comms[0]);
    call_run(r, r->comms[0], a, 1);
    call_run(r, r->comms[0], r->rank ? h : b, 2);
    call_run(r, r->comms[0], b, 3);
    must(r, call_runs(r->comms[0]) == 2, "the engine has run %u times, not 2", call_runs(r->comms[0]));
    threads_barrier(r);
    call_free(a);
    call_free(b);
    call_free(h);
}

START_TEST(memory_first_seen_in_a_mixed_call)
{
    job_t job = call_job(3, new_memory_in_a_mixed_call, NULL);

    call_run_job(&job);
}
END_TEST

/* Other memory at the address of memory that the peers have open: they must not write into the old one. */
static void memory_comes_and_goes(rank_t *r)
{
    static const call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 700, .send = 1, .recv = 1};
    call_t *c = call_make(r, &spec);

    prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 40; tag++) {
        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        if (threads_random(r, 2)) {
            call_move(r, c, threads_random(r, 2));
        }
    }
    threads_barrier(r);
    call_free(c);
}

START_TEST(memory_at_a_used_address)
{
    job_t job = call_job(3, memory_comes_and_goes, NULL);

    call_run_job(&job);
}
END_TEST

/* The same call again and again, until one rank, or all, do something else: other memory, another operation, a call in host
 * memory. Where the core says that a run repeats the one before, the engine finds the same addresses. */
static void again_and_again(rank_t *r)
{
    static const call_spec_t specs[] = {
        {.coll = DMA_ALLTOALL, .elements = 700, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLGATHER, .elements = 700, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLGATHER, .in_place = true, .elements = 700, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLTOALL, .elements = 701, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLTOALLV, .elements = 300, .sizes = 5, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLGATHER, .elements = 240, .vector = true, .send = PLACE_DEVICE, .recv = PLACE_DEVICE},
        {.coll = DMA_ALLTOALL, .elements = 700, .send = PLACE_HOST, .recv = PLACE_HOST},
    };
    enum { SPECS = sizeof(specs) / sizeof(specs[0]) };
    call_t *calls[2][SPECS];
    unsigned spec = 0;

    prepare(r, r->comms[0]);
    for (unsigned i = 0; i < SPECS; i++) {
        calls[0][i] = call_make(r, &specs[i]);
        calls[1][i] = call_make(r, &specs[i]);
    }
    for (uint64_t tag = 1; tag <= 200; tag++) {
        uint64_t h = (tag + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
        unsigned other = threads_random(r, 20) == 0; /* as only this rank knows */
        call_t twin = *calls[other][0];              /* in the same memory */

        spec = h >> 61 == 0 ? (unsigned)(h >> 30) % SPECS : spec;
        twin.spec.coll = twin.call.coll = DMA_ALLGATHER;
        call_run(r, r->comms[0], spec == 0 && h >> 50 & 1 ? &twin : calls[other][spec], tag);
        if (h >> 48 & 1 && threads_random(r, 8) == 0 && specs[spec].recv == PLACE_DEVICE) {
            call_move(r, calls[0][spec], threads_random(r, 2));
        }
        threads_barrier(r);
    }
    for (unsigned i = 0; i < SPECS; i++) {
        call_free(calls[0][i]);
        call_free(calls[1][i]);
    }
}

START_TEST(calls_that_come_again)
{
    job_t job = call_job(2 + _i, again_and_again, NULL);

    call_run_job(&job);
    ck_assert_uint_ge(engine_repeats(), 50);
}
END_TEST

/* Rank 0 exchanges the blocks alone. So it may be in the next call, with other memory, before rank 1 has read what rank 0 has
 * published for the first call. */
static void ahead_of_a_reader(rank_t *r)
{
    static const call_spec_t spec = {.coll = DMA_ALLTOALL, .in_place = true, .elements = 400, .send = 1, .recv = 1};
    call_t *a = call_make(r, &spec), *b = call_make(r, &spec);
    dma_task_t *tasks[2] = {NULL, NULL};

    prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 3; tag++) {
        call_run(r, r->comms[0], a, tag);
    }
    call_fill(r, a, 4);
    call_fill(r, b, 5);
    if (r->rank == 1) {
        must(r, task_post(r->comms[0], &a->call, NULL, NULL, &tasks[0]) == DMA_OK, "post");
        atomic_store(&r->job->reached, 1);
        while (atomic_load(&r->job->reached) < 2) {
            sched_yield(); /* no progress */
        }
    } else {
        while (atomic_load(&r->job->reached) < 1) {
            sched_yield();
        }
        must(r, dma_comm_run(r->comms[0], &a->call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    }
    must(r, task_post(r->comms[0], &b->call, NULL, NULL, &tasks[1]) == DMA_OK, "post");
    atomic_store(&r->job->reached, 2);
    for (int i = 0; i < 2; i++) {
        while (tasks[i] && dma_task_test(tasks[i]) == DMA_AGAIN) {
            threads_host.progress();
        }
        must(r, !tasks[i] || dma_task_test(tasks[i]) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        if (tasks[i]) {
            task_free(tasks[i]);
        }
    }
    call_verify(r, a);
    call_verify(r, b);
    threads_barrier(r);
    call_free(a);
    call_free(b);
}

START_TEST(record_is_kept_until_all_have_read_it)
{
    job_t job = call_job(2, ahead_of_a_reader, NULL);

    snprintf(job.params.gpu_variant, sizeof(job.params.gpu_variant), "swap");
    call_run_job(&job);
}
END_TEST

/* ---- non-blocking ---- */

enum { OUTSTANDING = 12 };

static void several_outstanding(rank_t *r)
{
    call_t *calls[OUTSTANDING];
    dma_task_t *tasks[OUTSTANDING];
    uint64_t tag = 0;

    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < OUTSTANDING; i++) {
            bool device = threads_random(r, 8) > 0;
            call_spec_t spec = {.coll = (dma_coll_t)(i % DMA_COLL_COUNT),
                                .in_place = i % 3 == 0,
                                .sizes = tag,
                                .elements = (size_t)(i * 700),
                                .send = device ? PLACE_DEVICE : PLACE_HOST,
                                .recv = device ? PLACE_DEVICE : PLACE_HOST};
            dma_status_t status;

            calls[i] = call_make(r, &spec);
            call_fill(r, calls[i], ++tag);
            status = task_post(r->comms[0], &calls[i]->call, NULL, NULL, &tasks[i]);
            must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
        }
        for (int i = 0; i < OUTSTANDING; i++) {
            dma_status_t status;

            while ((status = dma_task_test(tasks[i])) == DMA_AGAIN) {
                threads_host.progress();
            }
            must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
            call_verify(r, calls[i]);
            task_free(tasks[i]);
        }
        threads_barrier(r);
        for (int i = 0; i < OUTSTANDING; i++) {
            call_free(calls[i]);
        }
    }
}

START_TEST(outstanding)
{
    job_t job = call_job(2 + _i, several_outstanding, NULL);

    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device");

    unit_loop(s, all_device, 0, 6, 60);
    unit_loop(s, every_mixture, 0, 6, 60);
    unit_loop(s, mixtures_refused, 0, 2, 20);
    unit_loop(s, kinds_and_types, 0, 6, 60);
    unit_loop(s, slots_in_lock_step, 0, 3, 60);
    unit_test(s, memory_first_seen_in_a_mixed_call, 20);
    unit_test(s, memory_at_a_used_address, 20);
    unit_loop(s, calls_that_come_again, 0, 4, 30);
    unit_test(s, record_is_kept_until_all_have_read_it, 10);
    unit_loop(s, outstanding, 0, 3, 60);
    return unit_main(s);
}
