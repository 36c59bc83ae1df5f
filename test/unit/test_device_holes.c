/*
 * A call writes only bytes that it receives. Holes in and between blocks of a buffer in device memory belong to the application,
 * also while a call through host memory is under way. Every byte that a copy of the fake runtime
 * writes is noted and compared with what the datatype has there.
 */
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "core/resolve.h"
#include "device/device.h"
#include "libgpu_fake.h"
#include "libstrips.h"
#include "libthreads.h"
#include "libunit.h"

#define SIZE       24 /* of an element of any type */
#define MOST_RANKS 4
#define MOST_COUNT 5
#define ROOM       8192 /* of a buffer, on either side of its address */
#define CALLS      150

/* ---- datatypes ---- */

static const strips_t types[] = {
    {.extent = SIZE, .ub = SIZE, .n = 1, .strips = {{.bytes = SIZE, .n = 1}}, .dense = true},
    {.extent = 31, .lb = 2, .ub = 26, .n = 1, .strips = {{.at = 2, .bytes = SIZE, .n = 1}}, .regular = true},
    /* three rows, and further on the next three */
    {.extent = 45,
     .lb = 4,
     .ub = 36,
     .n = 1,
     .strips = {{.at = 4, .bytes = 8, .n = 3, .stride = 12, .pitch = 8}},
     .regular = true},
    /* three rows of 8 that go on at 12 in the next element */
    {.extent = 36, .ub = 32, .n = 1, .strips = {{.bytes = 8, .n = 3, .stride = 12, .pitch = 8}}, .regular = true},
    /* rows of different lengths */
    {.extent = 40, .ub = 37, .n = 3, .strips = {{0, 0, 5, 1, 0, 0}, {9, 5, 3, 4, 5, 3}, {30, 17, 7, 1, 0, 0}}},
    /* backwards, and before the address */
    {.extent = 33, .lb = -6, .ub = 25, .n = 2, .strips = {{20, 0, 5, 4, -6, 5}, {-6, 20, 4, 1, 0, 0}}},
    /* elements within each other */
    {.extent = 25, .ub = 75, .n = 2, .strips = {{0, 0, 12, 1, 0, 0}, {63, 12, 12, 1, 0, 0}}},
    /* three turns of rows of 5 and of 3 */
    {.extent = 41, .ub = 33, .n = 2, .strips = {{0, 0, 5, 3, 12, 8}, {6, 5, 3, 3, 12, 8}}},
    /* each element before the one before */
    {.extent = -30, .ub = SIZE, .n = 1, .strips = {{.bytes = SIZE, .n = 1}}, .regular = true},
};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* ---- calls ---- */

typedef struct holes_call {
    dma_call_t call;
    uint64_t tag;
    const strips_t *type;
    bool on_device;
    int n, rank, counts[MOST_RANKS], displs[MOST_RANKS], send_counts[MOST_RANKS], send_displs[MOST_RANKS];
    char *memory, *send; /* the address is in the middle */
    char want[2 * ROOM];
    uint8_t received[2 * ROOM], written[2 * ROOM]; /* bytes of `memory` */
} holes_call_t;

static uint64_t mix(uint64_t number)
{
    return (number + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
}

static int elements(const dma_call_t *call, uint64_t number, int from, int to)
{
    uint64_t of = dma_coll_gathers(call->coll) ? (uint64_t)from : (uint64_t)(from * MOST_RANKS + to);

    if (call->coll == DMA_ALLGATHER || call->coll == DMA_ALLTOALL) {
        return 1 + (int)(mix(number) >> 40) % MOST_COUNT;
    }
    return (int)(mix(number * 64 + of) >> 40) % MOST_COUNT;
}

static bool own_kept(const holes_call_t *c)
{
    return c->call.in_place && dma_coll_gathers(c->call.coll);
}

/* What `from` sends to `to`, in the block of `b`. */
static void put(const holes_call_t *c, char *memory, int b, int from, int to)
{
    uint64_t tag = c->tag * 8 + (dma_coll_gathers(c->call.coll) ? 0 : (uint64_t)to + 1);

    strips_fill(c->type, SIZE, memory + ROOM + c->displs[b] * c->type->extent, tag, from, (size_t)c->counts[b] * SIZE);
}

static void place_recv(rank_t *r, holes_call_t *c, uint64_t number)
{
    bool uneven = dma_coll_sizes(c->call.coll) != DMA_SIZES_EQUAL;
    int at = 0;

    for (int b = 0; b < c->n; b++) {
        c->counts[b] = elements(&c->call, number, b, c->rank);
        at += uneven ? (int)threads_random(r, 4) : 0;
        c->displs[b] = at;
        at += c->counts[b];
    }
    c->call.recv = (dma_side_t){.addr = c->memory + ROOM,
                                .dense = c->type->dense,
                                .width = sizeof(int),
                                .size = SIZE,
                                .extent = c->type->extent,
                                .lb = c->type->lb,
                                .ub = c->type->ub,
                                .type = (void *)(uintptr_t)c->type,
                                .count = (size_t)c->counts[0],
                                .counts = uneven ? c->counts : NULL,
                                .displs = uneven ? c->displs : NULL};
    memset(c->memory, 0xee, 2 * ROOM);
    memset(c->received, 0, sizeof(c->received));
    memset(c->written, 0, sizeof(c->written));
    for (int b = 0; b < c->n; b++) {
        if (!(own_kept(c) && b == c->rank)) {
            strips_mark(c->type, SIZE, c->received + ROOM + c->displs[b] * c->type->extent,
                        (size_t)c->counts[b] * SIZE);
        }
        if (c->call.in_place && (!own_kept(c) || b == c->rank)) {
            put(c, c->memory, b, c->rank, b);
        }
    }
    memcpy(c->want, c->memory, sizeof(c->want));
    for (int b = 0; b < c->n; b++) {
        put(c, c->want, b, b, c->rank);
    }
}

/* From host memory, in one piece. */
static void place_send(holes_call_t *c, uint64_t number)
{
    bool gathers = dma_coll_gathers(c->call.coll);
    int blocks = gathers ? 1 : c->n, at = 0;

    for (int b = 0; b < blocks; b++) {
        uint64_t tag = c->tag * 8 + (gathers ? 0 : (uint64_t)b + 1);

        c->send_counts[b] = elements(&c->call, number, c->rank, b) * SIZE;
        c->send_displs[b] = at;
        data_fill((uint8_t *)c->send + at, tag, c->rank, (size_t)c->send_counts[b]);
        at += c->send_counts[b];
    }
    c->call.send = data_buffer(c->send, (size_t)c->send_counts[0]);
    c->call.send.ub = 1;
    if (dma_coll_sizes(c->call.coll) == DMA_SIZES_OWN) {
        c->call.send.counts = c->send_counts;
        c->call.send.displs = c->send_displs;
    }
}

/* All ranks agree about what follows from the number; the rest is a rank's own. */
static holes_call_t *make(rank_t *r, uint64_t number)
{
    static const dma_gpu_kind_t kinds[] = {DMA_GPU_DEVICE_PLAIN, DMA_GPU_DEVICE_FINE, DMA_GPU_HOST_PINNED};
    uint32_t kind = threads_random(r, 5) % 3; /* seldom the host's */
    holes_call_t *c = calloc(1, sizeof(*c));

    c->tag = number;
    c->n = r->n;
    c->rank = r->rank;
    c->type = &types[threads_random(r, TYPES)];
    c->on_device = kind < 2;
    c->call.coll = (dma_coll_t)(mix(number) >> 62);
    c->call.in_place = mix(number) >> 60 & 1 && c->call.coll != DMA_ALLTOALLV;
    c->memory = fake_gpu_alloc(kinds[kind], r->rank, 2 * ROOM);
    c->send = malloc(MOST_RANKS * MOST_COUNT * SIZE);
    place_recv(r, c, number);
    place_send(c, number);
    if (c->on_device) {
        fake_gpu_watch(c->memory, 2 * ROOM, c->written);
    }
    return c;
}

static void check_written(rank_t *r, const holes_call_t *c, bool all)
{
    for (int i = 0; i < 2 * ROOM; i++) {
        must(r, c->written[i] <= c->received[i], "call %lu, type %d, operation %d%s: byte %d was written", c->tag,
             (int)(c->type - types), c->call.coll, c->call.in_place ? " in place" : "", i - ROOM);
        must(r, !all || !c->on_device || c->written[i] == c->received[i], "call %lu: byte %d was not written", c->tag,
             i - ROOM);
    }
}

static void check(rank_t *r, const holes_call_t *c)
{
    check_written(r, c, true);
    must(r, !memcmp(c->want, c->memory, sizeof(c->want)), "call %lu, type %d, operation %d%s: wrong data", c->tag,
         (int)(c->type - types), c->call.coll, c->call.in_place ? " in place" : "");
}

static void drop(holes_call_t *c)
{
    if (c->on_device) {
        fake_gpu_watch(c->memory, 0, NULL);
    }
    fake_gpu_free(c->memory);
    free(c->send);
    free(c);
}

static const struct dma_gpu_engine *const no_engines[] = {NULL};

static void run_with(int n, void (*body)(rank_t *r), const void *arg)
{
    job_t job = threads_job(n, body);

    job.arg = arg;
    job.runtime = fake_gpu_start(&(fake_gpu_options_t){.devices = MOST_RANKS, .seed = unit_seed(), .late_us = 20});
    job.engines = no_engines;
    job.ending = fake_gpu_ending;
    threads_run(&job);
    fake_gpu_stop();
}

static void run(int n, void (*body)(rank_t *r))
{
    run_with(n, body, NULL);
}

/* ---- calls through host memory ---- */

static void staged_body(rank_t *r)
{
    dma_host_t host = strips_host();

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS; i++) {
        holes_call_t *c = make(r, i);
        dma_status_t status = dma_comm_run(r->comms[0], &c->call);

        must(r, status == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
        check(r, c);
        drop(c);
    }
}

START_TEST(staged)
{
    run(_i, staged_body);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_type), 0);
}
END_TEST

/* ---- around the module below ---- */

/* A module that leaves nothing in its memory as it was, and puts what is received where it belongs. */
static void module_below(const holes_call_t *c, dma_bounce_t *bounce)
{
    dma_span_t span = dma_device_span(NULL, &c->call.recv, c->n);
    char *at = dma_bounce_recv(bounce, c->memory + ROOM);

    memset(at + (span.first - (c->memory + ROOM)), 0x5a, span.bytes);
    for (int b = 0; b < c->n; b++) {
        put(c, at - ROOM, b, b, c->rank);
    }
}

static void below_body(rank_t *r)
{
    dma_host_t host = strips_host();

    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS; i++) {
        holes_call_t *c = make(r, i);
        dma_bounce_t *bounce;

        must(r, dma_bounce_make(r->comms[0], &c->call, &bounce) == DMA_OK, "call %lu", i);
        must(r, !bounce || c->on_device, "call %lu", i);
        if (bounce) {
            must(r, dma_bounce_in(bounce) == DMA_OK, "call %lu", i);
            module_below(c, bounce);
            must(r, dma_bounce_out(bounce) == DMA_OK, "call %lu", i);
            check(r, c);
            dma_bounce_free(bounce);
        }
        drop(c);
    }
}

START_TEST(below)
{
    run(_i, below_body);
}
END_TEST

/* ---- copies ---- */

/* Elements of a type on a rank of its own. */
static void unpack_many(rank_t *r, const strips_t *t, size_t element, size_t count)
{
    size_t bytes = element * count, room = (count - 1) * (size_t)t->extent + (size_t)t->ub;
    dma_side_t side = {.size = element, .extent = t->extent, .ub = t->ub, .type = (void *)(uintptr_t)t};
    char *memory = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, 0, room), *want = calloc(1, room), *from = malloc(bytes);
    dma_host_t host = strips_host();

    r->comms[0]->host = &host;
    side.runtime = r->job->runtime;
    data_fill((uint8_t *)from, 1, 0, bytes);
    strips_put(t, element, want, from, bytes);
    must(r, dma_device_unpack(r->comms[0], &side, memory, count, from) == DMA_OK, "unpack");
    must(r, !memcmp(want, memory, room), "%zu elements of %zu bytes", count, element);
    free(want);
    free(from);
    fake_gpu_free(memory);
}

/* Copies are as few as the type has rows, and more only as far as the writer's slot is full. */
static void many_body(rank_t *r)
{
    const size_t *count = r->job->arg;

    if (r->rank == 0) {
        unpack_many(r, &types[4], SIZE, *count);
        must(r,
             fake_gpu_calls("copy2d_async") <= 6 + *count / 20000 && fake_gpu_calls("copy_async") <= 6 + *count / 20000,
             "%u copies", fake_gpu_calls("copy2d_async"));
    }
}

START_TEST(many_elements)
{
    static const size_t counts[] = {3000, 90000};

    run_with(2, many_body, &counts[_i]);
}
END_TEST

/* Rows that the slot has no place for. */
static void long_rows_body(rank_t *r)
{
    static const strips_t wide = {.extent = 1200004,
                                  .ub = 1100000,
                                  .n = 1,
                                  .strips = {{.bytes = 500000, .n = 2, .stride = 600000, .pitch = 500000}},
                                  .regular = true};

    if (r->rank == 0) {
        unpack_many(r, &wide, 1000000, 3);
    }
}

START_TEST(long_rows)
{
    run_with(2, long_rows_body, NULL);
}
END_TEST

/* A copy that the runtime refuses is the call's error; those before it have ended by then, and nothing else was written. */
static void refused_body(rank_t *r)
{
    static const char *const functions[] = {"copy2d_async",  "copy_async",    "alloc",
                                            "host_register", "stream_create", "enter"};
    dma_host_t host = strips_host();

    r->comms[0]->host = &host;
    for (uint64_t i = 0; r->rank == 0 && i < CALLS; i++) {
        holes_call_t *c = make(r, i);
        dma_bounce_t *bounce;
        dma_status_t status;

        must(r, dma_bounce_make(r->comms[0], &c->call, &bounce) == DMA_OK, "call %lu", i);
        if (bounce) {
            must(r, dma_bounce_in(bounce) == DMA_OK, "call %lu", i);
            module_below(c, bounce);
            fake_gpu_fail(functions[i % 6], (unsigned)(i / 6) % 2, DMA_ERR_ENGINE);
            status = dma_bounce_out(bounce);
            must(r, status == DMA_OK || (status == DMA_ERR_ENGINE && strcmp(functions[i % 6], "host_register") != 0),
                 "call %lu: %d", i, status); /* it does without pinned memory */
            check_written(r, c, status == DMA_OK);
            fake_gpu_fail(functions[i % 6], UINT32_MAX - 1, DMA_OK); /* never */
            must(r, dma_bounce_out(bounce) == DMA_OK, "call %lu", i);
            check(r, c);
            dma_bounce_free(bounce);
        }
        drop(c);
    }
}

START_TEST(refused)
{
    run(2, refused_body);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_holes");

    unit_loop(s, staged, 2, MOST_RANKS + 1, 30);
    unit_loop(s, below, 2, MOST_RANKS + 1, 30);
    unit_loop(s, many_elements, 0, 2, 20);
    unit_test(s, long_rows, 20);
    unit_test(s, refused, 30);
    return unit_main(s);
}
