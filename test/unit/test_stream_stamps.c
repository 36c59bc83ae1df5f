/*
 * Times of streams (engine/stream/stamps.h) on the fake runtime, whose clock the test can move on: when a stream gets to its
 * copies and has done them, over hours and over pauses; how it is related to the clock of the processor; whole collectives whose
 * traces have them, and in which streams that wake up late are seen to do so; calls of the runtime that fail; and that a
 * communicator without a trace makes no timed event.
 */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"
#include "engine/stream/stamps.h"
#include "libgpu_fake_internal.h"
#include "libstream.h"
#include "libunit.h"
#include "tools/trace/trace.h"

/* ---- the clock ---- */

static dma_gpu_runtime_t *rt;
static dma_gpu_stream_t *streams[DMA_STREAMS];
static dma_gpu_scope_t scope;
static dma_stream_stamps_t stamps;
static dma_stream_clock_t tick_clock;

static void begin(void)
{
    rt = stream_machine(0);
    ck_assert_int_eq(rt->enter(0, &scope), DMA_OK);
    for (int i = 0; i < DMA_STREAMS; i++) {
        ck_assert_int_eq(rt->stream_create(&streams[i]), DMA_OK);
    }
    tick_clock = (dma_stream_clock_t){0};
    dma_stream_stamps_init(&stamps, rt, true, true);
}

/* `refused`: events that were not made. */
static void end(unsigned refused)
{
    dma_stream_stamps_destroy(&stamps);
    dma_stream_clock_destroy(&tick_clock, rt);
    for (int i = 0; i < DMA_STREAMS; i++) {
        ck_assert_int_eq(rt->stream_destroy(streams[i]), DMA_OK);
    }
    rt->leave(&scope);
    ck_assert_uint_eq(fake_gpu_calls("event_create_timed"), fake_gpu_calls("event_destroy") + refused);
    fake_gpu_stop();
}

/* A run whose copies take `ns`, by the clock of the device. False: it has no times. */
static bool run(dma_stream_which_t which, double ns, uint64_t ticks[2])
{
    static char to[8], from[8];

    dma_stream_stamps_begin(&stamps, false);
    dma_stream_stamps_put_before(&stamps, which, streams[which]);
    ck_assert_int_eq(rt->stream_sync(streams[which]), DMA_OK);
    fake_gpu_pass(ns);
    ck_assert_int_eq(rt->copy_async(streams[which], (uintptr_t)to, (uintptr_t)from, 8), DMA_OK);
    dma_stream_stamps_put_after(&stamps, which, streams[which]);
    ck_assert_int_eq(rt->stream_sync(streams[which]), DMA_OK);
    return dma_stream_stamps_read(&stamps, &tick_clock, which, ticks);
}

/* Ticks of 10 ns against what the fake knows. */
START_TEST(hours)
{
    enum { RUNS = 20000 }; /* more than an hour */
    uint64_t first[2], ticks[2];
    double began, off, most = 0;

    begin();
    ck_assert(run(DMA_STREAM_PUSHES, 1e6, first));
    began = stamps.after[DMA_STREAM_PUSHES]->ns;
    for (int i = 0; i < RUNS; i++) {
        dma_stream_which_t which = i % 2 ? DMA_STREAM_OWN : DMA_STREAM_PUSHES;

        fake_gpu_pass(200e6);
        ck_assert(run(which, 50e3, ticks));
        off = fabs(10.0 * (double)(ticks[1] - first[1]) - (stamps.after[which]->ns - began));
        most = off > most ? off : most;
        ck_assert_double_ge(10.0 * (double)(ticks[1] - ticks[0]), 49e3);
    }
    /* a float of an hour in ms is exact to 250 us */
    ck_assert_msg(most < 20e3, "the clock is off by %g us", most / 1e3);
    end(0);
}
END_TEST

/* What is not read is not taken for a later run's. */
START_TEST(nothing_is_left_over)
{
    uint64_t ticks[2];

    begin();
    ck_assert(run(DMA_STREAM_OWN, 1e3, ticks));
    ck_assert(!dma_stream_stamps_read(&stamps, &tick_clock, DMA_STREAM_OWN, ticks));
    dma_stream_stamps_put_before(&stamps, DMA_STREAM_OWN, streams[DMA_STREAM_OWN]);
    dma_stream_stamps_put_after(&stamps, DMA_STREAM_OWN, streams[DMA_STREAM_OWN]);
    dma_stream_stamps_begin(&stamps, false);
    ck_assert(!dma_stream_stamps_read(&stamps, &tick_clock, DMA_STREAM_OWN, ticks));
    /* a copy that was launched before its run began is that run's */
    dma_stream_stamps_put_before(&stamps, DMA_STREAM_OWN, streams[DMA_STREAM_OWN]);
    dma_stream_stamps_put_after(&stamps, DMA_STREAM_OWN, streams[DMA_STREAM_OWN]);
    dma_stream_stamps_begin(&stamps, true);
    ck_assert(dma_stream_stamps_read(&stamps, &tick_clock, DMA_STREAM_OWN, ticks));
    end(0);
}
END_TEST

START_TEST(failures_end_it)
{
    static const char *const calls[] = {"event_create_timed", "event_record"};
    uint64_t ticks[2];

    begin();
    ck_assert(run(DMA_STREAM_PUSHES, 1e3, ticks));
    fake_gpu_fail(calls[_i], 0, DMA_ERR_ENGINE);
    ck_assert(!run(DMA_STREAM_OWN, 1e3, ticks));
    ck_assert(!run(DMA_STREAM_PUSHES, 1e3, ticks));
    end(_i == 0);
}
END_TEST

START_TEST(a_time_that_is_not_told)
{
    uint64_t ticks[2];

    begin();
    ck_assert(run(DMA_STREAM_PUSHES, 1e3, ticks));
    fake_gpu_fail("event_elapsed", 0, DMA_ERR_ENGINE);
    ck_assert(!run(DMA_STREAM_PUSHES, 1e3, ticks));
    ck_assert(run(DMA_STREAM_PUSHES, 1e3, ticks));
    end(0);
}
END_TEST

/* The clock of the fake's devices is that of the processor and what the test has added. So it is known where a moment lies. */
static void relate(dma_gpu_moment_t *moment)
{
    while (!dma_stream_clock_relate(&tick_clock, rt, streams[DMA_STREAM_PUSHES], moment)) {
        sched_yield(); /* the machine is too busy to reach an event in time */
    }
}

START_TEST(moments)
{
    uint64_t last = 0;

    begin();
    for (int i = 0; i < 20; i++) {
        dma_gpu_moment_t moment;
        uint64_t before = dma_trace_now();
        double at;

        relate(&moment);
        at = tick_clock.zero->ns + 10.0 * (double)moment.ticks - tick_clock.zero_ns - 2e5 * i;
        ck_assert_uint_ge(moment.earliest, before);
        ck_assert_uint_le(moment.earliest, moment.latest);
        ck_assert_uint_le(moment.latest, dma_trace_now());
        /* ticks are whole numbers, and the fake's times are floats of milliseconds */
        ck_assert_double_ge(at, (double)moment.earliest - 200);
        ck_assert_double_le(at, (double)moment.latest + 200);
        ck_assert_uint_ge(moment.ticks, last + (i ? 19980 : 0));
        last = moment.ticks;
        fake_gpu_pass(2e5);
    }
    end(0);
}
END_TEST

/* A burst that is not complete gives no moment, and the clock goes on. */
START_TEST(moments_that_fail)
{
    static const char *const calls[] = {"event_create_timed", "event_record", "event_elapsed"};
    dma_gpu_moment_t moment;
    uint64_t ticks[2];

    begin();
    relate(&moment);
    fake_gpu_fail(calls[_i], 0, DMA_ERR_ENGINE);
    ck_assert(!dma_stream_clock_relate(&tick_clock, rt, streams[DMA_STREAM_PUSHES], &moment));
    ck_assert(run(DMA_STREAM_PUSHES, 1e3, ticks));
    relate(&moment);
    end(_i == 0);
}
END_TEST

/* ---- which runs get them ---- */

/* Runs without a pause. On one rank a third of them has an early copy. */
START_TEST(few_runs_get_stamps)
{
    enum { RUNS = 160000, LOOP = 100 };
    static int in_loop[LOOP];
    dma_stream_stamps_t other;
    double now = 100;
    int stamped = 0, since = 0, most = 0;

    rt = stream_machine(0);
    dma_stream_stamps_init(&stamps, rt, true, false);
    dma_stream_stamps_init(&other, rt, true, false);
    for (int i = 0; i < RUNS; i++) {
        now += 12e-6;
        for (int k = 0; k < 1 + (i % 3 == 0); k++) {
            dma_stream_stamps_choose(&stamps, now);
        }
        dma_stream_stamps_choose(&other, now);
        stamps.chosen = other.chosen = false;
        ck_assert_int_eq(stamps.on, other.on);
        stamped += stamps.on;
        in_loop[i % LOOP] += stamps.on;
        since = stamps.on ? 0 : since + 1;
        most = since > most ? since : most;
    }
    ck_assert_int_ge(stamped, RUNS / 17);
    ck_assert_int_le(stamped, RUNS / 15);
    ck_assert_int_le(most, 64);
    /* each call of a loop of the program gets some */
    for (int i = 0; i < LOOP; i++) {
        ck_assert_msg(in_loop[i] > RUNS / LOOP / 64, "call %d of the loop: %d", i, in_loop[i]);
    }
    fake_gpu_stop();
}
END_TEST

START_TEST(runs_after_a_pause_get_stamps)
{
    double now = 100;

    rt = stream_machine(0);
    dma_stream_stamps_init(&stamps, rt, true, false);
    for (int i = 0; i < 1000; i++) {
        stamps.chosen = false;
        now += 310e-6;
        dma_stream_stamps_choose(&stamps, now);
        ck_assert(stamps.on);
    }
    fake_gpu_stop();
}
END_TEST

START_TEST(all_runs_get_stamps)
{
    rt = stream_machine(0);
    dma_stream_stamps_init(&stamps, rt, true, true);
    for (int i = 0; i < 1000; i++) {
        dma_stream_stamps_begin(&stamps, false);
        ck_assert(stamps.on);
    }
    fake_gpu_stop();
}
END_TEST

/* ---- in a trace ---- */

enum { CALLS = 12, BYTES = 4096 };

static char folder[] = "/tmp/dma_test_stamps.XXXXXX";

static void body(rank_t *r)
{
    stream_gathers(r, CALLS, BYTES);
}

typedef struct found {
    int stamps, early;
    int64_t least, most; /* ns: the clock of the processor less that of the events lies between */
} found_t;

/* A program begins after it was given to the engine, and ends before its call does. */
static void bound(found_t *f, const dma_trace_event_t *e, int64_t given, int64_t ended)
{
    int64_t low = given - 10 * (int64_t)e->a, high = ended - 10 * (int64_t)e->b;

    ck_assert_uint_le(e->a, e->b);
    f->least = f->stamps + f->early && f->least > low ? f->least : low;
    f->most = f->stamps + f->early && f->most < high ? f->most : high;
    f->stamps += e->kind == DMA_TRACE_STAMP;
    f->early += e->kind == DMA_TRACE_EARLY;
}

/* What is in the file of a rank, which is removed. */
static found_t find_stamps(int rank)
{
    static dma_trace_event_t e[4096];
    int64_t begun[CALLS + 2] = {0}, given[CALLS + 2] = {0}, ended[CALLS + 2] = {0};
    found_t found = {0};
    dma_trace_head_t head;
    char path[128];
    FILE *file;
    size_t n;

    snprintf(path, sizeof(path), "%s/%s.%d.trace", folder, THREADS_JOB, rank);
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fread(&head, sizeof(head), 1, file), 1);
    ck_assert_int_eq(fseek(file, (long)head.head_bytes, SEEK_SET), 0);
    n = fread(e, sizeof(e[0]), 4096, file);
    fclose(file);
    for (size_t i = 0; i < n && e[i].kind != DMA_TRACE_NONE; i++) {
        ck_assert(e[i].kind <= DMA_TRACE_TEXT || e[i].seq < CALLS + 2);
        if (e[i].kind == DMA_TRACE_BEGIN) {
            begun[e[i].seq] = (int64_t)e[i].at;
        } else if (e[i].kind == DMA_TRACE_SUBMIT) {
            given[e[i].seq] = (int64_t)e[i].at;
        } else if (e[i].kind == DMA_TRACE_END) {
            ended[e[i].seq] = (int64_t)e[i].at;
        }
    }
    for (size_t i = 0; i < n && e[i].kind != DMA_TRACE_NONE; i++) {
        if (e[i].kind == DMA_TRACE_STAMP || e[i].kind == DMA_TRACE_EARLY) {
            bound(&found, &e[i], e[i].kind == DMA_TRACE_EARLY ? begun[e[i].seq] : given[e[i].seq], ended[e[i].seq]);
        }
    }
    ck_assert_int_eq(unlink(path), 0);
    /* 20 ns: ticks are whole numbers; and the fake's times are floats of milliseconds */
    ck_assert_msg(found.least <= found.most + 200, "%ld ns", (long)(found.least - found.most));
    return found;
}

static job_t traced_job(const char *way, bool traced)
{
    job_t job;

    rt = stream_machine(50);
    job = stream_job(3, body, rt, way);
    strcpy(folder + sizeof(folder) - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    job.params.trace = traced ? folder : NULL;
    job.params.trace_bytes = 4 << 20;
    strcpy(job.params.trace_stamps, "all");
    return job;
}

/* All pushes of a run are one program, and the own block is another one, which may be early. */
START_TEST(traces_have_them)
{
    static const char *const ways[] = {"copy", "graph", "echo"};
    job_t job = traced_job(ways[_i], true);

    threads_run(&job);
    for (int r = 0; r < 3; r++) {
        found_t found = find_stamps(r);

        ck_assert_int_eq(found.stamps + found.early, _i == 2 ? CALLS : 2 * CALLS);
        /* the graph is made when the addresses come again, and launched early from then on */
        ck_assert_int_eq(found.early, _i == 1 ? CALLS - 2 : 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
    ck_assert_uint_eq(fake_gpu_calls("event_create_timed"), fake_gpu_calls("event_destroy"));
    fake_gpu_stop();
}
END_TEST

enum { ASLEEP_US = 50000 };

static void sleepy_body(rank_t *r)
{
    uint8_t *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES);
    uint8_t *recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BYTES * (size_t)r->n);
    dma_side_t to = data_buffer(recv, BYTES), from = data_buffer(send, BYTES);

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    for (int i = 0; i < CALLS; i++) {
        fake_gpu_sleep(r->rank, i ? ASLEEP_US : 0); /* the first call binds the engine, which finds its moment */
        must(r, data_allgather(r->comms[0], &from, &to) == DMA_OK, "call %d", i);
    }
    threads_barrier(r);
    fake_gpu_free(send);
    fake_gpu_free(recv);
}

/* The stream of the pushes sleeps before each call except the first one, and wakes up ASLEEP_US after it gets its work, or later.
 * What coll_dma_trace makes of the files shows that, as exactly as it says, although the calls alone do not show it. */
START_TEST(late_streams_are_seen)
{
    job_t job = traced_job("echo", true);
    char *dir = folder;
    trace_messages_t messages;
    trace_set_t set;
    int close = 0;

    job.body = sleepy_body;
    threads_run(&job);
    ck_assert(trace_read(&set, &dir, 1) && trace_match(&set, &messages));
    ck_assert_uint_eq(set.n, 3);
    for (size_t f = 0; f < set.n; f++) {
        /* the first call finds its stream awake; the clocks are not related by it */
        set.files[f].comms[0].calls[0].ended = false;
    }
    trace_compute_phases(&set, &messages);
    for (size_t f = 0; f < set.n; f++) {
        ck_assert(set.files[f].has_ticks);
        ck_assert_uint_eq(set.files[f].comms[0].ncalls, CALLS);
        close += set.files[f].tick_error < 500 * ASLEEP_US; /* half of ASLEEP_US is what the calls alone give */
        for (size_t i = 1; i < set.files[f].comms[0].ncalls; i++) {
            const trace_call_t *call = &set.files[f].comms[0].calls[i];

            ck_assert(call->ticks.last != 0);
            ck_assert_double_ge(
                (double)(trace_tick_time(&set.files[f], (uint64_t)call->ticks.first) - call->submit.first),
                1e3 * ASLEEP_US - set.files[f].tick_error - 200);
        }
        ck_assert_int_eq(unlink(set.files[f].path), 0);
    }
    ck_assert_int_gt(close, 0); /* on a busy machine the events of a rank may not be reached in time */
    trace_messages_free(&messages);
    trace_free(&set);
    ck_assert_int_eq(rmdir(folder), 0);
    fake_gpu_stop();
}
END_TEST

START_TEST(traces_without_them)
{
    static const char *const calls[] = {"event_create_timed", "event_record", "event_elapsed", NULL};
    job_t job = traced_job("copy", true);

    if (calls[_i]) {
        fake_gpu_fail(calls[_i], 5, DMA_ERR_ENGINE);
    } else {
        rt->event_create_timed = NULL;
        rt->event_elapsed = NULL;
    }
    threads_run(&job);
    for (int r = 0; r < 3; r++) {
        ck_assert_int_le(find_stamps(r).stamps, calls[_i] ? 2 * CALLS : 0);
    }
    ck_assert_int_eq(rmdir(folder), 0);
    fake_gpu_stop();
}
END_TEST

START_TEST(no_trace_no_events)
{
    job_t job = traced_job("auto", false);

    threads_run(&job);
    ck_assert_uint_eq(fake_gpu_calls("event_create_timed"), 0);
    ck_assert_uint_eq(fake_gpu_calls("event_elapsed"), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    fake_gpu_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream_stamps");

    unit_test(suite, hours, 60);
    unit_test(suite, nothing_is_left_over, 20);
    unit_loop(suite, failures_end_it, 0, 2, 20);
    unit_test(suite, a_time_that_is_not_told, 20);
    unit_test(suite, moments, 20);
    unit_loop(suite, moments_that_fail, 0, 3, 20);
    unit_test(suite, few_runs_get_stamps, 20);
    unit_test(suite, runs_after_a_pause_get_stamps, 20);
    unit_test(suite, all_runs_get_stamps, 20);
    unit_loop(suite, traces_have_them, 0, 3, 60);
    unit_test(suite, late_streams_are_seen, 60);
    unit_loop(suite, traces_without_them, 0, 4, 60);
    unit_test(suite, no_trace_no_events, 60);
    return unit_main(suite);
}
