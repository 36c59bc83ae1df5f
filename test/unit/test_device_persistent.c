/*
 * Persistent calls in device memory: the ranks agree once, and engines may have the programs of a call before it starts.
 * Ranks, devices and engines are threads.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "libpersistent.h"
#include "libunit.h"

/* ---- starts ---- */

static void started_again_and_again(rank_t *r)
{
    uint64_t tag = 0;

    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        for (int in_place = 0; in_place < 2; in_place++) {
            call_spec_t spec = call_spec_on_device(coll, in_place, 5000);
            persistent_t p;

            persistent_make(r, &p, &spec);
            for (int k = 0; k < 12; k++) {
                if (threads_random(r, 4) == 0) {
                    usleep(threads_random(r, 500));
                }
                persistent_start(r, &p, ++tag);
                persistent_finish(r, &p);
            }
            persistent_end(r, &p);
        }
    }
}

START_TEST(starts)
{
    for (int n = 2; n <= 4; n++) {
        job_t job = call_job(n, started_again_and_again, NULL);

        job.params.prelaunch = _i;
        call_run_job(&job);
        ck_assert_int_eq(engine_armed() > 0, _i > 0);
        ck_assert_int_eq(reasons_count(DMA_REASON_arm_limit) > 0, _i == 0);
        ck_assert_int_eq(reports_count("failed"), 0);
    }
}
END_TEST

/* Engines that do not take programs beforehand, or one that does not. */
START_TEST(engines_that_do_not_arm)
{
    engine_options_t options = {.seed = 1, .features = DMA_GPU_SWAP_PACKETS, .max_ways = 4};
    job_t job = call_job(3, started_again_and_again, &options);

    call_run_job(&job);
    ck_assert_uint_eq(engine_armed(), 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arm_unable), 0);
    job = call_job(3, started_again_and_again, NULL);
    engine_refuse(ENGINE_ARM, 1, 1000000);
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arm_refused), 0);
    ck_assert_uint_gt(engine_armed(), 0);
}
END_TEST

enum { STARTS = 4 };

static void started_in_some_places(rank_t *r)
{
    int places = *(const int *)r->job->arg;
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, places == 2 || (places == 1 && r->rank == 1), 5000);
    persistent_t p;

    persistent_make(r, &p, &spec);
    for (uint64_t tag = 1; tag <= STARTS; tag++) {
        persistent_start(r, &p, tag);
        persistent_finish(r, &p);
    }
    persistent_end(r, &p);
}

/* Where the model sees no gain in armed programs, starts write their packets. With the built-in profile pcpy gains from four queues
 * on if a rank has a fifth one for its own block, else from five on. All ranks do the same. Loop variable: out of place, one rank
 * in place, all. */
START_TEST(armed_as_the_model_says)
{
    for (int n = 4; n <= 6; n++) {
        job_t job = call_job(n, started_in_some_places, NULL);
        bool armed = n >= (_i == 2 ? 6 : 5);

        job.arg = &_i;
        job.params.gpu_profile = NULL;
        job.params.armed_seconds = 100;
        snprintf(job.params.gpu_variant, sizeof(job.params.gpu_variant), "pcpy");
        call_run_job(&job);
        ck_assert_uint_eq(engine_armed(), armed ? (unsigned)n * (STARTS + 1) : 0);
        ck_assert_uint_eq(engine_calls(ENGINE_START), armed ? 0 : (unsigned)n * STARTS);
        ck_assert_int_eq(reasons_count(DMA_REASON_arm_unable) > 0, !armed);
        ck_assert_int_eq(reports_count("failed"), 0);
    }
}
END_TEST

/* The first start is armed when the call is made, the others while the one before is under way: not when it ends. */
static void counted(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 1000);
    persistent_t p;

    persistent_make(r, &p, &spec);
    must(r,
         persistent_is_prepared(&p) && call_runs(persistent_inside(&p)) == 0 &&
             persistent_inside(&p)->device->next_is_armed,
         "not armed by the making");
    for (uint64_t tag = 1; tag <= 5; tag++) {
        unsigned armed;

        persistent_start(r, &p, tag);
        must(r, persistent_inside(&p)->device->next_is_armed && call_runs(persistent_inside(&p)) == tag,
             "not armed behind start %llu", (unsigned long long)tag);
        threads_barrier(r);
        armed = engine_armed();
        threads_barrier(r);
        persistent_finish(r, &p);
        threads_barrier(r);
        must(r, engine_armed() == armed, "armed while it waits for its end");
        threads_barrier(r);
    }
    persistent_end(r, &p);
}

START_TEST(armed_for_the_next_start)
{
    job_t job = call_job(3, counted, NULL);

    job.params.armed_seconds = 100;
    call_run_job(&job);
    ck_assert_uint_eq(engine_armed(), 3 * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_armed), 3 * 6);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_armed_started), 3 * 5);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_armed_cancelled), 3);
    ck_assert_uint_gt(counts_sum(DMA_COUNT_armed_ns), 0);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_persistent_allgather), 3 * 5);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_ENGINE), 3 * 5);
    ck_assert_uint_eq(engine_given_up(), 3);          /* by the end */
    ck_assert_uint_eq(engine_calls(ENGINE_START), 0); /* the processors had nothing to do */
}
END_TEST

/* ---- several ---- */

enum { CHANNELS = 5 };

/* More calls than may be armed, started in an order of each rank's own. */
static void in_any_order(rank_t *r)
{
    persistent_t p[CHANNELS];
    uint64_t tag = 0;

    for (int i = 0; i < CHANNELS; i++) {
        call_spec_t spec = call_spec_on_device(i % DMA_COLL_COUNT, i == 3, (size_t)(100 + 900 * i));

        persistent_make(r, &p[i], &spec);
    }
    for (int round = 0; round < 15; round++) {
        bool done[CHANNELS] = {false};

        for (int k = 0; k < CHANNELS; k++) {
            int i = (int)threads_random(r, CHANNELS);

            while (done[i]) {
                i = (i + 1) % CHANNELS;
            }
            done[i] = true;
            persistent_start(r, &p[i], tag + (uint64_t)i);
            must(r, r->proc->armed >= 0 && r->proc->armed <= r->proc->params.prelaunch, "%d are armed", r->proc->armed);
        }
        for (int k = 0; k < CHANNELS; k++) {
            persistent_finish(r, &p[k]);
        }
        tag += CHANNELS;
    }
    for (int i = 0; i < CHANNELS; i++) {
        persistent_end(r, &p[i]);
    }
    must(r, r->proc->armed == 0, "%d are armed behind the last", r->proc->armed);
}

START_TEST(several_in_any_order)
{
    job_t job = call_job(2 + _i, in_any_order, NULL);

    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arm_limit), 0);
}
END_TEST

/* Blocking calls on the communicator between the starts of a channel that is armed: neither sees the other. */
static void beside_blocking_calls(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, false, 3000);
    call_t *blocking = call_make(r, &spec);
    persistent_t p;

    persistent_make(r, &p, &spec);
    for (uint64_t tag = 1; tag <= 40; tag += 2) {
        persistent_start(r, &p, tag);
        call_run(r, r->comms[0], blocking, tag + 1);
        persistent_finish(r, &p);
    }
    persistent_end(r, &p);
    call_free(blocking);
}

START_TEST(beside_other_calls)
{
    job_t job = call_job(3, beside_blocking_calls, NULL);

    call_run_job(&job);
}
END_TEST

/* ---- given up ---- */

/* Some ranks are idle for longer than a program may wait, then all start: those are armed no more, others may be. */
static void idle(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 2000);
    persistent_t p;

    persistent_make(r, &p, &spec);
    for (uint64_t tag = 1; tag <= 6; tag++) {
        if (tag % 2 && r->rank != (int)tag % r->n) {
            while (persistent_inside(&p)->device->next_is_armed || dma_proc_active(r->proc)) {
                threads_host.progress();
            }
        }
        persistent_start(r, &p, tag);
        persistent_finish(r, &p);
    }
    persistent_end(r, &p);
}

START_TEST(given_up_when_idle)
{
    job_t job = call_job(3, idle, NULL);

    job.params.armed_seconds = 0.005;
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arm_expired), 0);
    ck_assert_uint_gt(engine_given_up(), 5);
}
END_TEST

/* Freed with programs in the engines: before any start, or behind one. */
static void freed_while_armed(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, true, 2000);

    for (int i = 0; i < 5; i++) {
        persistent_t p;

        persistent_make(r, &p, &spec);
        must(r, persistent_is_prepared(&p), "not frozen");
        if (i % 2) {
            persistent_start(r, &p, (uint64_t)i);
            persistent_finish(r, &p);
        }
        persistent_end(r, &p);
    }
}

START_TEST(freed_armed)
{
    job_t job = call_job(4, freed_while_armed, NULL);

    call_run_job(&job);
    ck_assert_uint_eq(engine_given_up() > 0, true);
}
END_TEST

/* ---- not frozen ---- */

/* Bit r of the argument: rank r has device memory. If not all have, every start meets. */
static void some_have_device_memory(rank_t *r)
{
    const unsigned *mask = r->job->arg;

    for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
        call_spec_t spec = call_spec_on_device(coll, coll == 2, 3000);
        persistent_t p;

        spec.send = spec.recv = *mask >> r->rank & 1 ? PLACE_DEVICE : PLACE_HOST;
        persistent_make(r, &p, &spec);
        must(r, persistent_is_prepared(&p) == (*mask == 7) || dma_coll_sizes(spec.coll) == DMA_SIZES_OWN, "frozen: %d",
             persistent_is_prepared(&p));
        for (uint64_t tag = 1; tag <= 3; tag++) {
            persistent_start(r, &p, tag);
            persistent_finish(r, &p);
        }
        persistent_end(r, &p);
    }
}

START_TEST(every_mixture)
{
    for (unsigned mask = 0; mask < 8; mask++) {
        job_t job = call_job(3, some_have_device_memory, NULL);

        job.arg = &mask;
        call_run_job(&job);
    }
}
END_TEST

/* Making fails in all the ways in which a rank can fail to do its part: the starts go another way, on all ranks. */
static void made_in_spite(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHERV, false, 3000);
    persistent_t p;

    persistent_make(r, &p, &spec);
    must(r, !persistent_is_prepared(&p), "frozen");
    for (uint64_t tag = 1; tag <= 6; tag++) {
        persistent_start(r, &p, tag);
        persistent_finish(r, &p);
    }
    persistent_end(r, &p);
}

START_TEST(making_fails_on_one_rank)
{
    static const char *const functions[] = {"ipc_open", "ipc_export", "host_register"};

    for (unsigned skip = 0; skip < 3; skip++) {
        job_t job = call_job(3, made_in_spite, NULL);

        if (_i == 3) {
            engine_refuse(ENGINE_BIND, (int)skip, 1);
        } else if (_i == 4) {
            engine_refuse(ENGINE_OPEN, (int)skip, 1);
        } else {
            job.params.prelaunch = 0; /* ready words that are not shown are no failure */
            fake_gpu_fail(functions[_i], skip, DMA_UNSUPPORTED);
        }
        call_run_job(&job);
        ck_assert_uint_eq(reasons_count(DMA_REASON_bind_refused), _i == 2 || _i == 3);
        ck_assert_uint_eq(reasons_count(DMA_REASON_unprepared), 3);
    }
}
END_TEST

/* Buffers that engines cannot use where they are: each start is resolved like other calls. */
static void made_with_odd_buffers(rank_t *r)
{
    const call_spec_t *spec = r->job->arg;
    persistent_t p;

    persistent_make(r, &p, spec);
    must(r, !persistent_is_prepared(&p), "frozen");
    persistent_start(r, &p, 1);
    persistent_finish(r, &p);
    persistent_end(r, &p);
}

START_TEST(buffers_that_are_not_prepared)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, true, 30);
    job_t job = call_job(3, made_with_odd_buffers, NULL);

    job.arg = &spec;
    if (_i == 0) {
        spec.vector = true; /* in place: it is staged */
    } else {
        spec.in_place = false;
        spec.recv = PLACE_FINE;
    }
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_unprepared), 3);
}
END_TEST

/* Virtually mapped memory: prepared, if it can be shared. */
static void in_mapped_memory(rank_t *r)
{
    call_spec_t spec = call_spec_on_device(DMA_ALLTOALL, false, 3000);
    const bool *shared = r->job->arg;
    persistent_t p;

    spec.recv = PLACE_MAPPED;
    persistent_make(r, &p, &spec);
    must(r, persistent_is_prepared(&p) == *shared, "%sfrozen", *shared ? "not " : "");
    for (uint64_t tag = 1; tag <= 6; tag++) {
        persistent_start(r, &p, tag);
        persistent_finish(r, &p);
    }
    persistent_end(r, &p);
}

/* Loop variable: the ranks have a directory for sockets, and none fails to open what it gets. */
START_TEST(virtually_mapped)
{
    char dir[] = "/tmp/dma-test-XXXXXX";
    bool shared = _i == 3;
    job_t job = call_job(3, in_mapped_memory, NULL);

    ck_assert_ptr_nonnull(mkdtemp(dir));
    job.arg = &shared;
    job.session_dir = _i & 1 ? dir : NULL;
    if (!(_i & 2)) {
        fake_gpu_fail("map_import", 1, DMA_UNSUPPORTED);
    }
    call_run_job(&job);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* ---- many of them ---- */

/* Engines need no shared memory for the data, so what a request takes does not grow with its blocks. */
static void many_requests(rank_t *r)
{
    enum { REQUESTS = 96 };
    static const size_t elements[] = {100, 20000, 200000};
    persistent_t all[REQUESTS];
    size_t before = 0, after;

    for (int k = 0; k < REQUESTS; k++) {
        call_spec_t spec = call_spec_on_device(k % DMA_COLL_COUNT, k % 5 == 0, elements[k % 3]);

        if (k == 1) { /* the communicator has its own memory by then */
            before = dma_arena_used(r->proc->arena);
        }
        persistent_make(r, &all[k], &spec);
        must(r, persistent_is_prepared(&all[k]), "request %d is not the engine's", k);
    }
    after = dma_arena_used(r->proc->arena);
    must(r, after - before < (REQUESTS - 1) * 100000, "%zu bytes for each request", (after - before) / (REQUESTS - 1));
    for (int k = 0; k < REQUESTS; k++) {
        persistent_start(r, &all[k], (uint64_t)(k + 1));
    }
    for (int k = REQUESTS; k-- > 0;) {
        persistent_finish(r, &all[k]);
    }
    for (int k = 0; k < REQUESTS; k++) {
        persistent_end(r, &all[k]);
    }
}

START_TEST(many_fit_into_the_arena)
{
    job_t job = call_job(2, many_requests, NULL);

    job.params.arena_bytes = 16u << 20;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("channel"), 0);
}
END_TEST

/* Calls with partitions that engines cannot wait for: not served on any rank, and the reason is counted where it is. */
static _Atomic int with_partitions;

static void asked_for_partitions(rank_t *r)
{
    static const uint32_t many = UINT32_C(1) << 24; /* no room for so many words */
    call_spec_t spec = call_spec_on_device(DMA_ALLGATHER, false, 4096);
    int asked = *(const int *)r->job->arg;
    dma_parts_t parts[4];
    persistent_t p[4];

    for (int i = 0; i < asked; i++) {
        call_t *call = call_make(r, &spec);

        parts[i] = (dma_parts_t){.magic = DMA_PARTS_MAGIC,
                                 .units = 1,
                                 .sparts = 1,
                                 .rparts = asked == 2 ? many : 1,
                                 .block = asked == 2 ? many : 4096,
                                 .unit = {{0, 4096, 0, 1}}};
        call->call.parts = &parts[i];
        persistent_make_of(r, &p[i], call);
        atomic_fetch_add(&with_partitions, parts[i].served);
        if (!parts[i].served) { /* an ordinary call */
            for (uint64_t tag = 1; tag < 4; tag++) {
                persistent_start(r, &p[i], tag);
                persistent_finish(r, &p[i]);
            }
        }
    }
    for (int i = 0; i < asked; i++) {
        persistent_end(r, &p[i]);
    }
    must(r, r->proc->armed == 0, "%d are armed behind the last", r->proc->armed);
}

static void ask_for_partitions(int asked, const engine_options_t *options, const char *refused)
{
    job_t job = call_job(3, asked_for_partitions, options);

    job.arg = &asked;
    job.params.gpu_profile = NULL; /* the model sees no gain, but they have no other way */
    atomic_store(&with_partitions, 0);
    if (refused) {
        engine_refuse(ENGINE_ARM, 1, 1000000);
    }
    call_run_job(&job);
}

START_TEST(partitions_refused)
{
    engine_options_t unable = {.seed = 1, .features = DMA_GPU_SWAP_PACKETS, .max_ways = 4};

    ask_for_partitions(1, NULL, NULL);
    ck_assert_int_eq(with_partitions, 3);
    ask_for_partitions(4, NULL, NULL); /* coll_dma_prelaunch is 2 */
    ck_assert_int_eq(with_partitions, 2 * 3);
    ck_assert_uint_ge(reasons_count(DMA_REASON_arm_limit), 2 * 3); /* and starts of those without */
    ask_for_partitions(2, NULL, NULL);
    ck_assert_int_eq(with_partitions, 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_channel_memory), 2 * 3);
    ask_for_partitions(1, &unable, NULL);
    ck_assert_int_eq(with_partitions, 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_parts_unable), 3);
    ask_for_partitions(1, NULL, "arm");
    ck_assert_int_eq(with_partitions, 0);
    ck_assert_uint_gt(reasons_count(DMA_REASON_arm_refused), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_parts_unable), 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_persistent");

    unit_loop(s, starts, 0, 3, 30);
    unit_test(s, engines_that_do_not_arm, 30);
    unit_loop(s, armed_as_the_model_says, 0, 3, 30);
    unit_test(s, armed_for_the_next_start, 10);
    unit_loop(s, several_in_any_order, 0, 3, 30);
    unit_test(s, beside_other_calls, 20);
    unit_test(s, given_up_when_idle, 20);
    unit_test(s, freed_armed, 20);
    unit_test(s, every_mixture, 30);
    unit_loop(s, making_fails_on_one_rank, 0, 5, 20);
    unit_loop(s, buffers_that_are_not_prepared, 0, 2, 20);
    unit_loop(s, virtually_mapped, 0, 4, 20);
    unit_test(s, many_fit_into_the_arena, 60);
    unit_test(s, partitions_refused, 60);
    return unit_main(s);
}
