/*
 * Irregular datatypes in device memory whose rows are long: the engines serve them, rows are packed inside the device, and no
 * byte between the rows is written. With ranks, devices and engines that are threads.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "device/device.h"
#include "libengine_call.h"
#include "libstrips.h"
#include "libunit.h"

#define SIZE       24000 /* of an element of any type */
#define MOST_RANKS 4
#define BEFORE     16384 /* bytes of a buffer in front of its address */
#define CALLS      32

static int least = 0, range = 3; /* elements in a block */
static size_t room = 1200000;    /* bytes of a buffer */
static bool one_way = false;     /* only rank 0 sends, and in an all-to-all-v only to others */

/* ---- datatypes ---- */

static const strips_t types[] = {
    {.extent = SIZE, .ub = SIZE, .n = 1, .strips = {{.bytes = SIZE, .n = 1}}, .dense = true},
    /* rows at different distances */
    {.extent = 40007,
     .ub = 38000,
     .n = 3,
     .strips = {{0, 0, 6000, 1, 0, 0}, {8000, 6000, 6000, 2, 8400, 6000}, {32000, 18000, 6000, 1, 0, 0}}},
    /* backwards, and before the address */
    {.extent = 36003,
     .lb = -12000,
     .ub = 24000,
     .n = 2,
     .strips = {{20000, 0, 4000, 4, -6000, 4000}, {-12000, 16000, 8000, 1, 0, 0}}},
    /* many rows, and one more */
    {.extent = 48001, .ub = 47520, .n = 2, .strips = {{0, 0, 2048, 10, 4096, 2048}, {44000, 20480, 3520, 1, 0, 0}}},
    /* elements within each other */
    {.extent = 12400, .ub = 712000, .n = 2, .strips = {{0, 0, 12000, 1, 0, 0}, {700000, 12000, 12000, 1, 0, 0}}},
    /* rows that touch the next */
    {.extent = 32000, .ub = 28000, .n = 2, .strips = {{0, 0, 4000, 3, 4000, 4000}, {16000, 12000, 12000, 1, 0, 0}}},
    /* regular: a shape, except where blocks are exchanged in place */
    {.extent = 36001, .ub = 30000, .n = 1, .strips = {{0, 0, 6000, 4, 8000, 6000}}, .regular = true},
    /* three rows that are at equal distances only when they are packed */
    {.extent = 36007,
     .ub = 32000,
     .n = 3,
     .strips = {{0, 0, 8000, 1, 0, 0}, {10000, 8000, 8000, 1, 0, 0}, {24000, 16000, 8000, 1, 0, 0}}},
    /* short rows: the processor packs them */
    {.extent = 44000, .ub = 41880, .n = 2, .strips = {{0, 0, 240, 50, 400, 240}, {24000, 12000, 240, 50, 360, 240}}},
};

enum { TYPES = sizeof(types) / sizeof(types[0]), LONG_TYPES = TYPES - 1 };

/* ---- calls ---- */

typedef struct typed {
    dma_call_t call;
    uint64_t tag;
    int counts[MOST_RANKS], displs[MOST_RANKS], send_counts[MOST_RANKS], send_displs[MOST_RANKS];
    const strips_t *type, *send_type;
    char *recv, *send; /* allocations */
    char *want;
    uint8_t *received, *written; /* bytes of `recv` */
} typed_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the fake runtime's allocator knows one thread */

static uint64_t mix(uint64_t number)
{
    return (number + unit_seed()) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool is_v(const typed_t *c)
{
    return dma_coll_sizes(c->call.coll) != DMA_SIZES_EQUAL;
}

/* Elements that `from` sends to `to`. */
static int elements(const typed_t *c, int from, int to)
{
    bool gathers = dma_coll_gathers(c->call.coll);
    int low = from < to ? from : to, high = from < to ? to : from;
    uint64_t of = gathers ? (uint64_t)from : (uint64_t)(c->call.in_place ? low * 8 + high : from * 8 + to);

    if (one_way && (from != 0 || (!gathers && to == 0))) {
        return 0;
    }
    return least + (is_v(c) ? (int)(mix(c->tag * 64 + of) >> 40) % range : 1 + (int)(mix(c->tag) >> 40) % range);
}

static char *take(rank_t *r, bool on_device)
{
    static const dma_gpu_kind_t kinds[] = {DMA_GPU_DEVICE_PLAIN, DMA_GPU_DEVICE_PLAIN, DMA_GPU_DEVICE_FINE,
                                           DMA_GPU_HOST_PINNED};
    char *memory;

    pthread_mutex_lock(&lock);
    memory = fake_gpu_alloc(kinds[threads_random(r, on_device ? 3 : 4)], r->rank, BEFORE + room);
    pthread_mutex_unlock(&lock);
    return memory;
}

static void give(char *memory)
{
    pthread_mutex_lock(&lock);
    fake_gpu_free(memory);
    pthread_mutex_unlock(&lock);
}

/* What `from` sends to `to`, as block `displ` of a buffer. */
static void put(const typed_t *c, char *memory, const strips_t *type, int displ, int from, int to)
{
    uint64_t tag = c->tag * 8 + (dma_coll_gathers(c->call.coll) ? 0 : (uint64_t)to + 1);

    strips_fill(type, SIZE, memory + BEFORE + displ * type->extent, tag, from, (size_t)elements(c, from, to) * SIZE);
}

static dma_side_t side_of(const typed_t *c, char *memory, const strips_t *t, const int *counts, const int *displs,
                          bool v)
{
    (void)c;
    return (dma_side_t){.addr = memory + BEFORE,
                        .dense = t->dense,
                        .width = sizeof(int),
                        .size = SIZE,
                        .extent = t->extent,
                        .lb = t->lb,
                        .ub = t->ub,
                        .type = (void *)(uintptr_t)t,
                        .count = (size_t)counts[0],
                        .counts = v ? counts : NULL,
                        .displs = v ? displs : NULL};
}

/* Places the blocks, with gaps between those of the operations that allow them. */
static void place(rank_t *r, typed_t *c, bool sends, int *counts, int *displs)
{
    for (int b = 0, at = 0; b < r->n; b++) {
        counts[b] = sends ? elements(c, r->rank, b) : elements(c, b, r->rank);
        at += is_v(c) ? (int)threads_random(r, 3) : 0;
        displs[b] = at;
        at += counts[b];
    }
}

static void place_recv(rank_t *r, typed_t *c)
{
    bool kept = c->call.in_place && dma_coll_gathers(c->call.coll);

    place(r, c, false, c->counts, c->displs);
    c->call.recv = side_of(c, c->recv, c->type, c->counts, c->displs, is_v(c));
    memset(c->recv, 0xee, BEFORE + room);
    for (int b = 0; b < r->n; b++) {
        if (!(kept && b == r->rank)) {
            strips_mark(c->type, SIZE, c->received + BEFORE + c->displs[b] * c->type->extent,
                        (size_t)c->counts[b] * SIZE);
        }
        if (c->call.in_place && (!kept || b == r->rank)) {
            put(c, c->recv, c->type, c->displs[b], r->rank, b);
        }
    }
    memcpy(c->want, c->recv, BEFORE + room);
    for (int b = 0; b < r->n; b++) {
        put(c, c->want, c->type, c->displs[b], b, r->rank);
    }
    fake_gpu_watch(c->recv, BEFORE + room, c->written);
}

static void place_send(rank_t *r, typed_t *c)
{
    bool gathers = dma_coll_gathers(c->call.coll);

    place(r, c, true, c->send_counts, c->send_displs);
    c->call.send = side_of(c, c->send, c->send_type, c->send_counts, c->send_displs, is_v(c) && !gathers);
    memset(c->send, 0xdd, BEFORE + room);
    if (gathers) {
        put(c, c->send, c->send_type, 0, r->rank, 0);
    }
    for (int b = 0; !gathers && b < r->n; b++) {
        put(c, c->send, c->send_type, c->send_displs[b], r->rank, b);
    }
}

/* The number says what all ranks agree about; the rest is a rank's own. */
static typed_t *make_on(rank_t *r, uint64_t number, bool long_rows, bool on_device)
{
    typed_t *c = calloc(1, sizeof(*c));

    c->tag = number;
    c->call.coll = (dma_coll_t)(mix(number) >> 62);
    c->call.in_place = mix(number) >> 60 & 1;
    c->type = &types[threads_random(r, long_rows ? LONG_TYPES : TYPES)];
    c->send_type = &types[threads_random(r, long_rows ? LONG_TYPES : TYPES)];
    c->recv = take(r, on_device);
    c->send = take(r, on_device);
    c->want = malloc(BEFORE + room);
    c->received = calloc(1, BEFORE + room);
    c->written = calloc(1, BEFORE + room);
    place_recv(r, c);
    place_send(r, c);
    return c;
}

static typed_t *make(rank_t *r, uint64_t number, bool long_rows)
{
    return make_on(r, number, long_rows, long_rows);
}

static void check(rank_t *r, const typed_t *c)
{
    for (size_t i = 0; i < BEFORE + room; i++) {
        must(r, c->recv[i] == c->want[i], "call %lu, types %d and %d, operation %d%s: byte %zd is wrong", c->tag,
             (int)(c->send_type - types), (int)(c->type - types), c->call.coll, c->call.in_place ? " in place" : "",
             (ptrdiff_t)i - BEFORE);
        must(r, c->written[i] <= c->received[i], "call %lu, type %d: byte %zd was written", c->tag,
             (int)(c->type - types), (ptrdiff_t)i - BEFORE);
    }
}

static void drop(typed_t *c)
{
    fake_gpu_watch(c->recv, 0, NULL);
    give(c->recv);
    give(c->send);
    free(c->want);
    free(c->received);
    free(c->written);
    free(c);
}

/* The argument: all rows are long. */
static void calls(rank_t *r)
{
    const bool *long_rows = r->job->arg;
    dma_host_t host = strips_host();
    unsigned served = 0;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS; i++) {
        typed_t *c = make(r, i, *long_rows);
        dma_status_t status = dma_comm_run(r->comms[0], &c->call);

        must(r, status == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
        check(r, c);
        served += !is_v(c);
        threads_barrier(r);
        drop(c);
    }
    must(r, !*long_rows || call_runs(r->comms[0]) >= served, "the engines have served %u of at least %u calls",
         call_runs(r->comms[0]), served);
    r->comms[0]->host = &threads_host;
}

/* With engines that copy between shapes, and with those that do not. */
START_TEST(long_rows_are_the_engines)
{
    engine_options_t options = {.seed = unit_seed(), .features = DMA_GPU_SWAP_PACKETS, .max_ways = 16};
    bool long_rows = true;
    job_t job = call_job(_i, calls, &options);

    job.arg = &long_rows;
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_scratch_type), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* The scratch memory holds only a part of a call, so rows are cut. */
START_TEST(rows_in_pieces)
{
    engine_options_t options = {.seed = unit_seed(), .features = DMA_GPU_SWAP_PACKETS, .max_ways = 16};
    bool long_rows = true;
    job_t job = call_job(_i, calls, &options);

    job.arg = &long_rows;
    job.params.scratch_bytes = 150000;
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_scratch_bound), 0);
    ck_assert_uint_gt(counts_sum(DMA_COUNT_calls_pieces), 0);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* Each rank has an irregular datatype on both sides, and no data on one of them. */
static void calls_one_way(rank_t *r)
{
    dma_host_t host = strips_host();
    uint64_t staged;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS; i++) {
        typed_t *c = make(r, i, true);

        if (is_v(c) && !c->call.in_place) {
            must(r, dma_comm_run(r->comms[0], &c->call) == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
            check(r, c);
            threads_barrier(r);
        }
        drop(c);
    }
    staged = call_counted(r, DMA_COUNT_calls_staged);
    must(r, staged == 0, "%lu calls were staged", staged);
    r->comms[0]->host = &threads_host;
}

START_TEST(a_side_without_data_has_no_datatype)
{
    job_t job;

    least = 1;
    one_way = true;
    job = call_job(3, calls_one_way, NULL);
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

START_TEST(any_rows)
{
    bool long_rows = false;
    job_t job = call_job(_i, calls, NULL);

    job.arg = &long_rows;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- by slots ---- */

static void large_blocks(void)
{
    least = 11; /* 264000 bytes */
    room = 4000000;
}

/* Any rows, as calls of several forms and kinds of memory draw them; the argument: in device memory alone. */
static void calls_by_slots(rank_t *r)
{
    const bool *on_devices = r->job->arg;
    dma_host_t host = strips_host();
    uint64_t by_slots, staged;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS / 4; i++) {
        typed_t *c = make_on(r, i, false, *on_devices);
        dma_status_t status = dma_comm_run(r->comms[0], &c->call);

        must(r, status == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
        check(r, c);
        threads_barrier(r);
        drop(c);
    }
    by_slots = call_counted(r, DMA_COUNT_calls_slots);
    staged = call_counted(r, DMA_COUNT_calls_staged);
    must(r, !*on_devices || by_slots == CALLS / 4, "%lu calls by slots, %lu staged", by_slots, staged);
    must(r, call_counted(r, DMA_COUNT_pinned_most) <= r->proc->params.pinned_bytes, "%lu bytes pinned",
         call_counted(r, DMA_COUNT_pinned_most));
    /* a writer without pinned memory takes 1 MiB in any case (write.c) */
    must(r, call_counted(r, DMA_COUNT_scratch_most) <= r->proc->params.scratch_bytes + (1 << 20), "%lu bytes",
         call_counted(r, DMA_COUNT_scratch_most));
    r->comms[0]->host = &threads_host;
}

static void calls_any(rank_t *r)
{
    dma_host_t host = strips_host();

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS / 4; i++) {
        typed_t *c = make_on(r, i, false, true);

        must(r, dma_comm_run(r->comms[0], &c->call) == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
        check(r, c);
        threads_barrier(r);
        drop(c);
    }
    must(r, call_counted(r, DMA_COUNT_calls_slots) && call_runs(r->comms[0]), "%lu by slots, %u by engines",
         call_counted(r, DMA_COUNT_calls_slots), call_runs(r->comms[0]));
    must(r, call_counted(r, DMA_COUNT_calls_slots) == call_counted(r, DMA_COUNT_calls_staged), "%lu staged otherwise",
         call_counted(r, DMA_COUNT_calls_staged) - call_counted(r, DMA_COUNT_calls_slots));
    r->comms[0]->host = &threads_host;
}

/* With little pinned memory the processor packs nothing; with little scratch memory pieces are small. */
START_TEST(rows_by_slots)
{
    static const uint64_t pinned[] = {64 << 20, 1 << 20, 200 << 10, 64 << 20};
    static const uint64_t scratch[] = {64 << 20, 64 << 20, 100 << 10, 100 << 10};
    bool on_devices = _i < 4;
    job_t job;

    large_blocks();
    call_streams_late(_i % 2 ? 20 : 0);
    job = call_job_without_engine(3, calls_by_slots, &on_devices);
    job.params.pinned_bytes = pinned[_i % 4];
    job.params.scratch_bytes = scratch[_i % 4];
    job.params.arena_bytes = 16 << 20;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* An engine serves the other ranks: irregular datatypes of one, exchanges in place. */
START_TEST(rows_by_slots_beside_engines)
{
    bool on_devices = true;
    job_t job;

    large_blocks();
    job = call_job(3, calls_any, NULL);
    job.arg = &on_devices;
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* Without scratch memory rows cannot be packed piece by piece. */
static void calls_without_room(rank_t *r)
{
    dma_host_t host = strips_host();

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= 4; i++) {
        typed_t *c = make_on(r, i, false, true);

        must(r, dma_comm_run(r->comms[0], &c->call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        check(r, c);
        threads_barrier(r);
        drop(c);
    }
    r->comms[0]->host = &threads_host;
}

START_TEST(rows_without_scratch_memory)
{
    job_t job;

    large_blocks();
    job = call_job(3, calls_without_room, NULL);
    job.params.scratch_bytes = 0;
    snprintf(job.params.engine, sizeof(job.params.engine), "none");
    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_staged_scratch), 0);
    ck_assert_uint_eq(counts_sum(DMA_COUNT_calls_slots), 0);
}
END_TEST

/* The device has no room for the rows: everything goes through host memory. */
static void no_room(rank_t *r)
{
    dma_host_t host = strips_host();

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 1; i <= CALLS / 4; i++) {
        typed_t *c = make(r, i, true);
        dma_status_t status;

        fake_gpu_fail("alloc", 0, DMA_ERR_NOMEM);
        status = dma_comm_run(r->comms[0], &c->call);
        must(r, status == DMA_OK, "call %lu: %s", i, dma_comm_reason(r->comms[0]));
        check(r, c);
        threads_barrier(r);
        drop(c);
    }
    r->comms[0]->host = &threads_host;
}

START_TEST(without_room_through_the_host)
{
    job_t job = call_job(2, no_room, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
}
END_TEST

/* ---- several allocations ---- */

/* Types over MPI_BOTTOM: long and short rows at equal distances, in two allocations. */
static const strips_t in_two[] = {
    {.extent = 122880,
     .ub = 89920,
     .n = 3,
     .strips = {{0, 0, 8000, 1, 0, 0}, {40960, 8000, 8000, 1, 0, 0}, {81920, 16000, 8000, 1, 0, 0}}},
    {.extent = 122880, .ub = 60560, .n = 2, .strips = {{0, 0, 240, 50, 400, 240}, {40960, 12000, 240, 50, 400, 240}}},
    /* regular */
    {.extent = 122880, .ub = 89920, .n = 1, .strips = {{0, 0, 8000, 3, 40960, 8000}}, .regular = true},
};

enum { IN_TWO = sizeof(in_two) / sizeof(in_two[0]), CUT = BEFORE + 7 * 4096 };

static char *take_two(rank_t *r)
{
    char *memory;

    pthread_mutex_lock(&lock);
    memory = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, BEFORE + room);
    fake_gpu_split(memory, CUT);
    pthread_mutex_unlock(&lock);
    return memory;
}

static void give_two(char *memory)
{
    give(memory + CUT);
    give(memory);
}

static void calls_in_two(rank_t *r)
{
    dma_host_t host = strips_host();

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    for (uint64_t i = 0; i < 2 * IN_TWO; i++) {
        typed_t c = {.type = &in_two[i % IN_TWO],
                     .send_type = &in_two[(i + (uint64_t)r->rank) % IN_TWO],
                     .call = {.coll = i / IN_TWO ? DMA_ALLTOALL : DMA_ALLGATHER},
                     .tag = i + 1,
                     .recv = take_two(r),
                     .send = take_two(r),
                     .want = malloc(BEFORE + room),
                     .received = calloc(1, BEFORE + room),
                     .written = calloc(1, BEFORE + room)};

        place_recv(r, &c);
        place_send(r, &c);
        must(r, dma_comm_run(r->comms[0], &c.call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        check(r, &c);
        threads_barrier(r);
        fake_gpu_watch(c.recv, 0, NULL);
        give_two(c.recv);
        give_two(c.send);
        free(c.want);
        free(c.received);
        free(c.written);
    }
    r->comms[0]->host = &threads_host;
}

/* No copy goes from one allocation to another. Loop variable: with engines; through the host; by slots. */
START_TEST(rows_in_two_allocations)
{
    job_t job;

    range = 1;
    room = 400000;
    if (_i == 2) {
        least = 11;
        room = 3200000;
    }
    job = call_job(2, calls_in_two, NULL);
    if (_i) {
        snprintf(job.params.engine, sizeof(job.params.engine), "none");
    }
    call_run_job(&job);
    ck_assert_int_eq(reports_count("failed"), 0);
    ck_assert(_i != 2 || counts_sum(DMA_COUNT_calls_slots));
}
END_TEST

/* ---- what it costs ---- */

/* Rows at equal distances, of which the datatype says nothing: an indexed one with a run of equal blocks. */
static const strips_t run_of_rows = {
    .extent = 30000,
    .ub = 28000,
    .n = 3,
    .strips = {{0, 0, 8000, 1, 0, 0}, {10000, 8000, 8000, 1, 0, 0}, {20000, 16000, 8000, 1, 0, 0}}};

/* Rows that follow each other are one copy, and rows at a regular distance are one strided copy. */
static void rows_together(rank_t *r)
{
    const bool *run = r->job->arg;
    dma_host_t host = strips_host();
    typed_t c = {
        .type = &types[5], .send_type = *run ? &run_of_rows : &types[1], .call = {.coll = DMA_ALLGATHER}, .tag = 1};
    unsigned copies, strided, sent = *run ? 1 : 2;

    must(r, dma_comm_prepare(r->comms[0]) == DMA_OK, "set-up");
    r->comms[0]->host = &host;
    c.recv = take(r, true);
    c.send = take(r, true);
    c.want = malloc(BEFORE + room);
    c.received = calloc(1, BEFORE + room);
    c.written = calloc(1, BEFORE + room);
    place_recv(r, &c);
    place_send(r, &c);
    threads_barrier(r);
    copies = fake_gpu_calls("copy_async");
    strided = fake_gpu_calls("copy2d_async");
    threads_barrier(r);
    must(r, dma_comm_run(r->comms[0], &c.call) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
    threads_barrier(r);
    copies = fake_gpu_calls("copy_async") - copies;
    strided = fake_gpu_calls("copy2d_async") - strided;
    /* each of two ranks, for each element: the rows that it sends, and a strip; for both blocks that it receives: three rows that
     * touch and another one, which make two of 12000 bytes, as far apart as the blocks are */
    must(r, copies == 0 && strided == 2 * (sent + 1) * (unsigned)c.counts[0], "%u and %u copies for %d elements",
         copies, strided, c.counts[0]);
    check(r, &c);
    threads_barrier(r);
    fake_gpu_watch(c.recv, 0, NULL);
    give(c.recv);
    give(c.send);
    free(c.want);
    free(c.received);
    free(c.written);
    r->comms[0]->host = &threads_host;
}

START_TEST(rows_cost_few_copies)
{
    bool run = _i;
    job_t job = call_job(2, rows_together, NULL);

    range = 1; /* of one element: else rows of all elements would be one copy */
    job.arg = &run;
    call_run_job(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("device_typed");

    unit_loop(suite, long_rows_are_the_engines, 2, MOST_RANKS + 1, 120);
    unit_loop(suite, rows_in_pieces, 2, MOST_RANKS + 1, 120);
    unit_test(suite, a_side_without_data_has_no_datatype, 120);
    unit_loop(suite, any_rows, 2, MOST_RANKS + 1, 120);
    unit_loop(suite, rows_by_slots, 0, 8, 120);
    unit_test(suite, rows_by_slots_beside_engines, 120);
    unit_test(suite, rows_without_scratch_memory, 60);
    unit_test(suite, without_room_through_the_host, 60);
    unit_loop(suite, rows_in_two_allocations, 0, 3, 60);
    unit_loop(suite, rows_cost_few_copies, 0, 2, 30);
    return unit_main(suite);
}
