/*
 * The stream engine on a fake runtime, whose streams are late and run in any order. Whole collectives of 2 to 5 ranks
 * in device memory, with every byte compared; the runtime calls of one collective; runtime calls that fail; and the
 * echo of the own block.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "engine/stream/self_copy.h"
#include "libstream.h"
#include "libunit.h"
#include "plan/profile.h"

#define MOST_RANKS 5
#define MARGIN     64 /* bytes on both sides of a buffer, which nobody may change */
#define GAP        0xee

/* ---- one call, which all ranks derive from the same number ---- */

typedef struct call {
    uint64_t number;
    int n, rank;
    dma_coll_t coll;
    bool in_place;
    uint64_t most;
    int send_counts[MOST_RANKS], send_displs[MOST_RANKS], recv_counts[MOST_RANKS], recv_displs[MOST_RANKS];
    size_t send_bytes, recv_bytes;
    uint8_t *send, *recv; /* after the margins */
    dma_call_t call;
} call_t;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

static uint64_t draw(uint64_t number, uint64_t what, uint64_t below)
{
    return mix(number * 4096 + what) % below;
}

static bool uneven(const call_t *c)
{
    return dma_coll_sizes(c->coll) != DMA_SIZES_EQUAL;
}

/* Bytes from one rank to another. */
static int bytes_between(const call_t *c, int from, int to)
{
    int low = from < to ? from : to, high = from < to ? to : from;
    uint64_t which = 0;

    if (!uneven(c)) {
        return (int)c->most;
    }
    if (dma_coll_gathers(c->coll)) {
        which = (uint64_t)from;
    } else {
        /* in place, what is received replaces what was sent */
        which = (uint64_t)(c->in_place ? 64 + low * 8 + high : 64 + from * 8 + to);
    }
    return draw(c->number, 200 + which, 5) == 0 ? 0 : (int)draw(c->number, 400 + which, c->most + 1);
}

static uint8_t content(const call_t *c, int from, int to, size_t at)
{
    uint64_t which = dma_coll_gathers(c->coll) ? (uint64_t)from : (uint64_t)(from * 8 + to + 8);

    return (uint8_t)(mix(c->number + which * 977) >> 8) ^ (uint8_t)(at * 7 + at / 251);
}

static size_t lay_out(const call_t *c, int *counts, int *displs, bool sending)
{
    int at = 0;

    for (int r = 0; r < c->n; r++) {
        counts[r] = sending ? bytes_between(c, c->rank, r) : bytes_between(c, r, c->rank);
        displs[r] = at;
        at += counts[r] + (uneven(c) ? (int)draw(c->number, 900 + (uint64_t)(r + c->rank * 8), 40) : 0);
    }
    return (size_t)at;
}

static dma_side_t side(const call_t *c, uint8_t *addr, const int *counts, const int *displs, bool many)
{
    dma_side_t s = {.addr = addr, .dense = true, .width = sizeof(int), .size = 1, .extent = 1, .ub = 1};

    s.count = uneven(c) ? (many ? 0 : (size_t)counts[0]) : (size_t)c->most;
    s.counts = uneven(c) && many ? counts : NULL;
    s.displs = uneven(c) && many ? displs : NULL;
    return s;
}

static uint8_t *buffer(const call_t *c, size_t bytes)
{
    uint8_t *memory = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, c->rank % FAKE_GPU_MAX_DEVICES, bytes + 2 * MARGIN);

    memset(memory, GAP, bytes + 2 * MARGIN);
    return memory + MARGIN;
}

static void fill(const call_t *c, uint8_t *to, int block, int count)
{
    for (int i = 0; i < count; i++) {
        to[i] = content(c, c->rank, block, (size_t)i);
    }
}

static void call_begin(call_t *c, const rank_t *r, uint64_t number, uint64_t most)
{
    bool gathers;

    *c = (call_t){.number = number, .n = r->n, .rank = r->rank, .coll = (dma_coll_t)draw(number, 1, DMA_COLL_COUNT)};
    c->in_place = draw(number, 2, 2);
    c->most = 1 + draw(number, 3, most);
    gathers = dma_coll_gathers(c->coll);
    c->recv_bytes = lay_out(c, c->recv_counts, c->recv_displs, false);
    c->send_bytes = gathers ? (size_t)bytes_between(c, c->rank, 0) : lay_out(c, c->send_counts, c->send_displs, true);
    c->recv = buffer(c, c->recv_bytes);
    c->send_counts[0] = gathers ? (int)c->send_bytes : c->send_counts[0];
    if (c->in_place) {
        for (int b = 0; b < c->n; b++) {
            if (!gathers || b == c->rank) {
                fill(c, c->recv + c->recv_displs[b], b, c->recv_counts[b]);
            }
        }
    } else {
        c->send = buffer(c, c->send_bytes);
        for (int b = 0; b < (gathers ? 1 : c->n); b++) {
            fill(c, c->send + c->send_displs[b], b, c->send_counts[b]);
        }
    }
    c->call = (dma_call_t){.coll = c->coll,
                           .in_place = c->in_place,
                           .send = side(c, c->send, c->send_counts, c->send_displs, !gathers),
                           .recv = side(c, c->recv, c->recv_counts, c->recv_displs, true)};
}

static void call_check(rank_t *r, const call_t *c)
{
    size_t at = 0;

    for (int b = 0; b < c->n; b++) {
        for (; at < (size_t)c->recv_displs[b]; at++) {
            must(r, c->recv[at] == GAP, "call %lu: the gap at %zu was written", c->number, at);
        }
        for (int i = 0; i < c->recv_counts[b]; i++, at++) {
            must(r, c->recv[at] == content(c, b, c->rank, (size_t)i),
                 "call %lu (%d, in place %d): byte %d of %d from %d", c->number, c->coll, c->in_place, i,
                 c->recv_counts[b], b);
        }
    }
    for (int i = 0; i < MARGIN; i++) {
        must(r, c->recv[-1 - i] == GAP && c->recv[c->recv_bytes + (size_t)i] == GAP, "call %lu: outside", c->number);
    }
}

static void call_end(call_t *c)
{
    fake_gpu_free(c->recv - MARGIN);
    if (c->send) {
        fake_gpu_free(c->send - MARGIN);
    }
}

/* ---- whole collectives ---- */

typedef struct setting {
    int calls;
    uint64_t most;
    uint64_t seed;
} setting_t;

static dma_gpu_runtime_t *rt;

static void body(rank_t *r)
{
    const setting_t *s = r->job->arg;
    call_t c[2];

    for (int i = 0; i < s->calls; i++) {
        uint64_t number = s->seed + (uint64_t)i * 2;
        dma_task_t *task[2];

        /* one blocking, or two in flight */
        call_begin(&c[0], r, number, s->most);
        if (draw(number, 4, 3)) {
            threads_prepare(r, r->comms[0]);
            must(r, dma_comm_run(r->comms[0], &c[0].call) == DMA_OK, "call %lu", number);
            call_check(r, &c[0]);
            call_end(&c[0]);
            continue;
        }
        call_begin(&c[1], r, number + 1, s->most);
        for (int k = 0; k < 2; k++) {
            must(r, task_post(r->comms[0], &c[k].call, NULL, NULL, &task[k]) == DMA_OK, "post");
        }
        for (int k = 1; k >= 0; k--) {
            dma_status_t status;

            while ((status = dma_task_test(task[k])) == DMA_AGAIN) {
                threads_host.progress();
            }
            must(r, status == DMA_OK, "call %lu", number);
            task_free(task[k]);
            call_check(r, &c[k]);
            call_end(&c[k]);
        }
    }
}

/* Were all device collectives served by the engine, and none staged? */
static void served(void)
{
    ck_assert_int_eq(reports_count("open"), 0);
    ck_assert_int_eq(reports_count("bind"), 0);
    ck_assert_int_eq(reports_count("device"), 0);
    ck_assert_int_eq(reports_count("device off"), 0);
}

static const char *const ways[] = {"auto", "graph", "copy", "echo"};

START_TEST(any_call_on_late_streams)
{
    static const uint64_t sizes[] = {40, 3000, 200000};

    for (int n = 2; n <= MOST_RANKS; n++) {
        setting_t s = {.calls = 30, .most = sizes[_i % 3], .seed = mix(unit_seed() + (uint64_t)(n * 16 + _i))};
        job_t job;

        rt = stream_machine(_i < 6 ? 60 : 0);
        job = stream_job(n, body, rt, ways[_i % 4]);
        job.arg = &s;
        threads_run(&job);
        served();
        ck_assert_uint_gt(fake_gpu_calls("write32"), 0);
        fake_gpu_stop();
    }
}
END_TEST

/* A runtime without its optional functions. */
START_TEST(without_writes_and_graphs)
{
    setting_t s = {.calls = 40, .most = 5000, .seed = mix(unit_seed() + 77)};
    job_t job;

    rt = stream_machine(60);
    rt->write32 = NULL;
    rt->graph_create = NULL;
    rt->graph_update = NULL;
    rt->graph_launch = NULL;
    rt->graph_destroy = NULL;
    job = stream_job(3, body, rt, _i ? "auto" : "echo");
    job.arg = &s;
    threads_run(&job);
    served();
    ck_assert_uint_gt(fake_gpu_calls("event_record"), 0);
    ck_assert_uint_eq(reasons_count(DMA_REASON_stream_events), 3);
    fake_gpu_stop();
}
END_TEST

/* ---- failures ---- */

/* If there is another way, the call is right nevertheless. */
START_TEST(failures_that_nobody_notices)
{
    static const char *const calls[] = {"write32", "graph_create", "graph_launch", "graph_update"};
    setting_t s = {.calls = 30, .most = 3000, .seed = mix(unit_seed() + 78)};
    job_t job;

    for (unsigned skip = 0; skip < 6; skip += 5) {
        rt = stream_machine(30);
        fake_gpu_fail(calls[_i], skip, DMA_ERR_ENGINE);
        job = stream_job(3, body, rt, "graph");
        job.arg = &s;
        threads_run(&job);
        served();
        ck_assert_uint_eq(reasons_count(DMA_REASON_stream_events), _i == 0);
        fake_gpu_stop();
    }
}
END_TEST

/* An all-gather of a number of bytes, repeated with the same buffers. */
typedef struct repeat {
    uint64_t bytes;
    bool in_place;
    int calls;
    int failing; /* rank whose calls fail, from some call on; -1: none */
    unsigned counted[8];
} repeat_t;

static dma_status_t gather(rank_t *r, const repeat_t *p, uint8_t *send, uint8_t *recv)
{
    dma_side_t to = data_buffer(recv, p->bytes), from = data_buffer(send, p->bytes);

    return data_allgather(r->comms[0], p->in_place ? NULL : &from, &to);
}

static void failing_body(rank_t *r)
{
    const repeat_t *p = r->job->arg;
    uint8_t *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, p->bytes);
    uint8_t *recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, p->bytes * (size_t)r->n);
    dma_status_t status = dma_comm_prepare(r->comms[0]);
    int calls = 0;

    while (status == DMA_OK && calls++ < 1000) {
        status = gather(r, p, send, recv);
    }
    must(r, status == DMA_ERR_ENGINE || status == DMA_ERR_PEER, "status %s", dma_status_name(status));
    must(r, gather(r, p, send, recv) != DMA_OK, "a call after the failure");
    /* Everything of ours that was under way ends before the communicator: the fake runtime would fault or report it. */
    dma_comm_destroy(r->comms[0]);
    r->comms[0] = NULL;
    threads_barrier(r);
    fake_gpu_free(send);
    fake_gpu_free(recv);
}

START_TEST(failures_reach_all_ranks)
{
    static const char *const calls[] = {"copy_batch", "copy_async", "event_record", "event_create", "event_query"};
    repeat_t p = {.bytes = 9000};
    job_t job;

    rt = stream_machine(100);
    if (_i >= 2) {
        rt->write32 = NULL;
    }
    fake_gpu_fail(calls[_i], _i == 3 ? 1 : 7, DMA_ERR_ENGINE);
    job = stream_job(3, failing_body, rt, "copy");
    job.arg = &p;
    threads_run(&job);
    fake_gpu_stop();
}
END_TEST

/* ---- what a call costs ---- */

static const char *const counted[] = {"enter",        "leave",        "copy_batch",   "copy_async",
                                      "graph_launch", "graph_create", "event_record", "write32"};

static void counting_body(rank_t *r)
{
    repeat_t *p = (repeat_t *)r->job->arg;
    uint8_t *send = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, p->bytes);
    uint8_t *recv = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, p->bytes * (size_t)r->n);

    threads_prepare(r, r->comms[0]);
    for (int i = 0; i < 4 + p->calls; i++) {
        threads_barrier(r);
        if (i == 4 && r->rank == 0) {
            for (size_t k = 0; k < sizeof(counted) / sizeof(counted[0]); k++) {
                p->counted[k] = fake_gpu_calls(counted[k]);
            }
        }
        threads_barrier(r);
        data_fill(p->in_place ? recv + (size_t)r->rank * p->bytes : send, (uint64_t)i, r->rank, p->bytes);
        must(r, gather(r, p, send, recv) == DMA_OK, "call %d", i);
        data_check(r, recv, (uint64_t)i, p->bytes);
    }
    threads_barrier(r);
    if (r->rank == 0) {
        for (size_t k = 0; k < sizeof(counted) / sizeof(counted[0]); k++) {
            p->counted[k] = fake_gpu_calls(counted[k]) - p->counted[k];
        }
    }
    threads_barrier(r);
    fake_gpu_free(send);
    fake_gpu_free(recv);
}

START_TEST(calls_of_the_runtime)
{
    enum { N = 4, CALLS = 50 };
    static const struct {
        const char *way;
        bool in_place;
        unsigned batches, copies, launches, writes;
    } cases[] = {
        {"auto", true, 1, 0, 0, 1},
        {"graph", false, 1, 0, 1, 2},
        {"copy", false, 1, 1, 0, 2},
        {"echo", false, 2, 0, 0, 1},
    };
    repeat_t p = {.bytes = 4096, .in_place = cases[_i].in_place, .calls = CALLS};
    unsigned all = N * CALLS;
    job_t job;

    rt = stream_machine(0);
    job = stream_job(N, counting_body, rt, cases[_i].way);
    job.arg = &p;
    threads_run(&job);
    served();
    /* once per start; and a check of the streams from time to time */
    ck_assert_uint_ge(p.counted[0], all);
    ck_assert_uint_eq(p.counted[2], all * cases[_i].batches);
    ck_assert_uint_eq(p.counted[3], all * cases[_i].copies);
    ck_assert_uint_eq(p.counted[4], all * cases[_i].launches);
    ck_assert_uint_eq(p.counted[5], 0);
    ck_assert_uint_eq(p.counted[6], 0);
    ck_assert_uint_eq(p.counted[7], all * cases[_i].writes);
    fake_gpu_stop();
}
END_TEST

/* ---- the plans that this engine gets ---- */

START_TEST(one_queue_is_chosen)
{
    dma_gpu_profile_t gpu = dma_gpu_profile_default();
    dma_profile_t profile = dma_profile_default();

    for (int n = 2; n <= 16; n++) {
        for (uint64_t bytes = 1; bytes <= UINT64_C(1) << 32; bytes *= 4) {
            for (int coll = 0; coll < DMA_COLL_COUNT; coll++) {
                for (int in_place = 0; in_place < 2; in_place++) {
                    dma_plan_req_t req = {.coll = (dma_coll_t)coll,
                                          .nranks = n,
                                          .in_place = in_place,
                                          .bytes = bytes,
                                          .gpu = &gpu,
                                          .max_queues = 1};
                    const char *name;
                    const char *reason;
                    dma_choice_t choice;

                    ck_assert_int_eq(dma_plan_choose(&profile, &req, -1, &choice, &reason), DMA_OK);
                    name = dma_variants[choice.variant]->name;
                    if (in_place && !dma_coll_gathers((dma_coll_t)coll)) {
                        ck_assert(!strcmp(name, "swap") || !strcmp(name, "halves"));
                    } else {
                        ck_assert_msg(!strcmp(name, "b2b") || (n == 2 && !strcmp(name, "pcpy")), "%s", name);
                        ck_assert_uint_eq(choice.queues, 1);
                    }
                }
            }
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");

    unit_loop(suite, any_call_on_late_streams, 0, 12, 120);
    unit_loop(suite, without_writes_and_graphs, 0, 2, 60);
    unit_loop(suite, calls_of_the_runtime, 0, 4, 60);
    unit_loop(suite, failures_that_nobody_notices, 0, 4, 60);
    unit_loop(suite, failures_reach_all_ranks, 0, 5, 60);
    unit_test(suite, one_queue_is_chosen, 20);
    return unit_main(suite);
}
