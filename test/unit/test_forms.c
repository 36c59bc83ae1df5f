/*
 * Every operation in every form, at random. Ranks are threads. Calls are blocking, non-blocking (several in flight,
 * with a blocking call among them) and persistent (several channels, which different ranks start in different orders);
 * in place or not; with dense and derived sides, and a type for each block; with equal and different counts, zeros and gaps. What a rank must
 * receive is computed from the definition, and every byte of its buffer is compared, gaps included.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"
#include "libthreads.h"
#include "libunit.h"

#define MAX_RANKS   9
#define MAX_FLIGHT  6
#define GAP         0xee
#define CHANNEL_RUN 3

/* One call of one rank, with everything it needs. All ranks derive it from the same number. */
typedef struct item {
    uint64_t number;
    dma_coll_t coll;
    bool in_place;
    int most; /* elements of a block */
    int n, rank;
    vector_type_t send_type, recv_type, send_types[MAX_RANKS], recv_types[MAX_RANKS]; /* of all blocks, and of each */
    void *send_handles[MAX_RANKS], *recv_handles[MAX_RANKS];
    int send_counts[MAX_RANKS], send_displs[MAX_RANKS];
    int recv_counts[MAX_RANKS], recv_displs[MAX_RANKS];
    size_t send_at[MAX_RANKS], recv_at[MAX_RANKS]; /* bytes */
    uint8_t *send, *recv;
    size_t send_bytes, recv_bytes;
    dma_call_t call;
    dma_task_t *task;
    dma_channel_t *channel;
    _Alignas(DMA_TASK_ALIGN) char memory[DMA_TASK_BYTES];
    _Atomic int outcome; /* 0: not ended; 1: ended with success; 2: ended with an error */
} item_t;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ (x >> 33)) * UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ (x >> 33);
}

/* A random number below `below`, for the property `what` of a call. */
static uint64_t draw(uint64_t number, uint64_t what, uint64_t below)
{
    return mix(number * 0x100 + what) % below;
}

static bool gathers(const item_t *it)
{
    return dma_coll_gathers(it->coll);
}

static bool uneven(const item_t *it)
{
    return dma_coll_sizes(it->coll) != DMA_SIZES_EQUAL;
}

static bool typed(const item_t *it)
{
    return it->coll == DMA_ALLTOALLW;
}

/* Names what goes from one rank to another. */
static uint64_t pair_of(const item_t *it, int from, int to)
{
    if (gathers(it)) {
        return (uint64_t)from;
    }
    if (it->in_place) { /* what is received replaces what was sent */
        return (uint64_t)(from < to ? from * MAX_RANKS + to : to * MAX_RANKS + from);
    }
    return (uint64_t)(from * MAX_RANKS + to);
}

/* Elements that go from one rank to another. */
static int elements(const item_t *it, int from, int to)
{
    uint64_t which = pair_of(it, from, to);

    if (!uneven(it)) {
        return 1 + (int)draw(it->number, 1, (uint64_t)it->most);
    }
    if (draw(it->number, 100 + which, 6) == 0) {
        return 0;
    }
    return (int)draw(it->number, 1000 + which, (uint64_t)it->most + 1);
}

/* Bytes `at` and the seven behind it of what `from` sends to `to`. */
static uint64_t word_of(const item_t *it, int from, int to, size_t at)
{
    uint64_t pair = (uint64_t)from * MAX_RANKS + (uint64_t)(gathers(it) ? 0 : to);

    /* without a period, so that a block overwritten by a later chunk looks wrong */
    return mix((it->number << 20) + (pair << 50) + (at >> 3));
}

/* The type of a block. Half of the calls with a type for each block are dense. */
static vector_type_t type_of(const item_t *it, int from, int to, bool sends)
{
    uint64_t own = 4 * (uint64_t)(from * MAX_RANKS + to) + 2 * sends;
    size_t piece = 1 + draw(it->number, 2000 + pair_of(it, from, to), 5);

    if (!typed(it)) {
        return sends ? it->send_type : it->recv_type;
    }
    return (vector_type_t){.piece = piece,
                           .stride = piece + draw(it->number, 8, 2) * draw(it->number, 3000 + own, 3),
                           .lead = draw(it->number, 3001 + own, 4)};
}

/* Writes what `from` sends to `to`, as elements of type `type`, from byte `start` of a buffer on. */
static void put(const item_t *it, uint8_t *buffer, const vector_type_t *type, size_t start, int from, int to)
{
    int count = elements(it, from, to);
    uint64_t word = 0;
    size_t at = 0;

    for (int e = 0; e < count; e++) {
        for (size_t i = 0; i < type->piece; i++, at++) {
            word = at % 8 == 0 ? word_of(it, from, to, at) : word >> 8;
            buffer[start + type->lead + (size_t)e * type->stride + i] = (uint8_t)word;
        }
    }
}

/* Returns the displacement behind the block at `displ`, in elements or in bytes. */
static int next_displ(const item_t *it, const vector_type_t *type, int displ, int count, int gap)
{
    return displ + (uneven(it) ? gap : 0) + (typed(it) ? (int)type->lead + count * (int)type->stride : count);
}

static void place_blocks(item_t *it)
{
    int sent = 0, received = 0;

    for (int p = 0; p < it->n; p++) {
        it->recv_types[p] = type_of(it, p, it->rank, false);
        it->recv_handles[p] = &it->recv_types[p];
        it->recv_counts[p] = elements(it, p, it->rank);
        it->recv_displs[p] = received;
        it->recv_at[p] = (size_t)received * (typed(it) ? 1 : it->recv_type.stride);
        received = next_displ(it, &it->recv_types[p], received, it->recv_counts[p], p % 3);
        if (!gathers(it) || p == 0) {
            it->send_types[p] = type_of(it, it->rank, p, true);
            it->send_handles[p] = &it->send_types[p];
            it->send_counts[p] = elements(it, it->rank, p);
            it->send_displs[p] = sent;
            it->send_at[p] = (size_t)sent * (typed(it) ? 1 : it->send_type.stride);
            sent = next_displ(it, &it->send_types[p], sent, it->send_counts[p], p % 2);
        }
    }
    it->send_bytes = ((size_t)sent + 1) * it->send_type.stride;
    it->recv_bytes = ((size_t)received + 1) * it->recv_type.stride;
}

static void fill(item_t *it)
{
    memset(it->send, GAP, it->send_bytes);
    memset(it->recv, GAP, it->recv_bytes);
    for (int p = 0; p < it->n; p++) {
        if (!gathers(it) || p == 0) {
            put(it, it->send, &it->send_types[p], it->send_at[p], it->rank, p);
        }
        if (it->in_place && (!gathers(it) || p == it->rank)) {
            put(it, it->recv, &it->recv_types[p], it->recv_at[p], it->rank, p);
        }
    }
}

static dma_side_t side(void *addr, const vector_type_t *type, bool v, const int *counts, const int *displs)
{
    return (dma_side_t){
        .addr = addr,
        .dense = type->piece == type->stride,
        .width = sizeof(int),
        .size = type->piece,
        .extent = (ptrdiff_t)type->stride,
        .type = (void *)type,
        .count = v ? 0 : (size_t)counts[0],
        .counts = v ? counts : NULL,
        .displs = v ? displs : NULL,
    };
}

/* Gives each block of a side its own type. */
static void set_types(dma_side_t *side, const vector_type_t *types, void *const *handles, int n)
{
    side->dense = true;
    for (int p = 0; p < n; p++) {
        side->dense = side->dense && types[p].piece == types[p].stride;
    }
    side->in_bytes = true;
    side->types = handles;
}

static void item_begin(const rank_t *r, item_t *it, uint64_t number)
{
    static const int most[] = {1, 4, 20, 20, 200, 2000, 12000, 50000};
    size_t piece = 1 + draw(number, 2, 5);

    *it = (item_t){.number = number, .n = r->n, .rank = r->rank};
    it->coll = (dma_coll_t)draw(number, 3, DMA_COLL_COUNT);
    it->in_place = draw(number, 4, 3) == 0;
    it->most = most[draw(number, 5, 8)];
    it->send_type = (vector_type_t){.piece = piece, .stride = piece + (draw(number, 6, 4) ? 0 : 3)};
    it->recv_type = (vector_type_t){.piece = piece, .stride = piece + (draw(number, 7, 4) ? 0 : 2)};
    place_blocks(it);
    it->send = malloc(it->send_bytes);
    it->recv = malloc(it->recv_bytes);
    fill(it);
    it->call = (dma_call_t){
        .coll = it->coll,
        .in_place = it->in_place,
        .send = side(it->send, &it->send_type, uneven(it) && !gathers(it), it->send_counts, it->send_displs),
        .recv = side(it->recv, &it->recv_type, uneven(it), it->recv_counts, it->recv_displs),
    };
    if (typed(it)) {
        set_types(&it->call.send, it->send_types, it->send_handles, it->n);
        set_types(&it->call.recv, it->recv_types, it->recv_handles, it->n);
    }
}

static void item_check(rank_t *r, const item_t *it)
{
    uint8_t *want = malloc(it->recv_bytes);

    memset(want, GAP, it->recv_bytes);
    for (int p = 0; p < it->n; p++) {
        put(it, want, &it->recv_types[p], it->recv_at[p], p, it->rank);
    }
    for (size_t i = memcmp(want, it->recv, it->recv_bytes) ? 0 : it->recv_bytes; i < it->recv_bytes; i++) {
        must(r, want[i] == it->recv[i], "call %llu, operation %d%s: byte %zu of %zu is %02x, should be %02x",
             (unsigned long long)it->number, it->coll, it->in_place ? " in place" : "", i, it->recv_bytes, it->recv[i],
             want[i]);
    }
    free(want);
}

static void item_end(rank_t *r, item_t *it)
{
    item_check(r, it);
    free(it->send);
    free(it->recv);
}

static void done(void *arg, dma_status_t status)
{
    item_t *it = arg;

    it->outcome = it->outcome || status != DMA_OK ? 2 : 1; /* once */
}

/* The end of a call is reported in one of two ways, and only once. */
static void ended(item_t *it, dma_status_t outcome)
{
    if (outcome != DMA_AGAIN) {
        done(it, outcome);
    }
}

static void item_post(rank_t *r, item_t *it)
{
    dma_status_t status, outcome = DMA_AGAIN;

    it->task = NULL;
    if (threads_random(r, 2)) {
        status = task_post(r->comms[0], &it->call, done, it, &it->task);
    } else {
        bool ask = threads_random(r, 4);

        status = dma_comm_post_in(r->comms[0], &it->call, done, it, it->memory, ask ? &outcome : NULL);
    }
    must(r, status == DMA_OK, "not posted");
    ended(it, outcome);
}

static void item_start(rank_t *r, item_t *it)
{
    dma_status_t outcome = DMA_AGAIN;

    it->outcome = 0;
    must(r, dma_channel_start(it->channel, threads_random(r, 4) ? &outcome : NULL) == DMA_OK, "not started");
    ended(it, outcome);
}

static void item_wait(rank_t *r, item_t *it)
{
    while (!it->outcome) {
        dma_proc_progress(r->proc);
        sched_yield();
    }
    must(r, it->outcome == 1, "call %llu: %s", (unsigned long long)it->number, dma_comm_reason(r->comms[0]));
}

static void run_blocking(rank_t *r, uint64_t number)
{
    item_t it;
    dma_status_t status;

    item_begin(r, &it, number);
    status = dma_comm_run(r->comms[0], &it.call);
    must(r, status == DMA_OK, "call %llu: %s: %s", (unsigned long long)number, dma_status_name(status),
         dma_comm_reason(r->comms[0]));
    item_end(r, &it);
}

/* Several calls in flight. With `blocking`, sometimes a blocking call follows. */
static void run_flight(rank_t *r, uint64_t number, bool blocking)
{
    item_t items[MAX_FLIGHT];
    int n = 1 + (int)draw(number, 10, MAX_FLIGHT);

    for (int i = 0; i < n; i++) {
        item_begin(r, &items[i], number + (uint64_t)i);
        item_post(r, &items[i]);
    }
    if (blocking && draw(number, 11, 2)) {
        run_blocking(r, number + MAX_FLIGHT);
    }
    for (int i = n - 1; i >= 0; i--) {
        item_wait(r, &items[i]);
        if (items[i].task) {
            task_free(items[i].task);
        }
        item_end(r, &items[i]);
    }
}

static void run_channels(rank_t *r, uint64_t number)
{
    item_t items[3];
    int n = 1 + (int)draw(number, 12, 3);

    for (int i = 0; i < n; i++) {
        item_begin(r, &items[i], number + (uint64_t)i);
        must(r, dma_channel_create(r->comms[0], &items[i].call, done, &items[i], &items[i].channel) == DMA_OK,
             "no channel");
        /* nothing reads the caller's arrays any more */
        memset(items[i].recv_counts, 0x55, sizeof(items[i].recv_counts));
        memset(items[i].recv_displs, 0x55, sizeof(items[i].recv_displs));
        memset(items[i].recv_handles, 0, sizeof(items[i].recv_handles));
        memset(items[i].send_handles, 0, sizeof(items[i].send_handles));
    }
    for (int round = 0; round < CHANNEL_RUN; round++) {
        int first = (int)threads_random(r, (uint32_t)n); /* each rank in its own order */

        for (int i = 0; i < n; i++) {
            item_t *it = &items[(i + first) % n];

            fill(it);
            item_start(r, it);
        }
        for (int i = 0; i < n; i++) {
            item_wait(r, &items[i]);
            item_check(r, &items[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        dma_channel_destroy(items[i].channel);
        item_end(r, &items[i]);
    }
}

static void body(rank_t *r)
{
    int rounds = *(const int *)r->job->arg;

    for (int i = 0; i < rounds; i++) {
        uint64_t number = (unit_seed() * 4096 + (uint64_t)i) * 16;

        if (threads_random(r, 8) == 0) {
            sched_yield();
        }
        if (i == 1) { /* the first calls may have been posted before the set-up */
            threads_prepare(r, r->comms[0]);
        }
        switch (i == 0 ? 1 : draw(number, 20, 4)) {
        case 0:
            run_channels(r, number);
            break;
        case 1:
            run_flight(r, number, i > 0);
            break;
        default:
            run_blocking(r, number);
            break;
        }
    }
}

static void run_forced(int n, const char *variant, int rounds)
{
    job_t job = threads_job(n, body);

    job.ncomms = 1;
    job.arg = &rounds;
    snprintf(job.params.variant, sizeof(job.params.variant), "%s", variant);
    threads_run(&job);
}

START_TEST(any_form_of_any_operation)
{
    run_forced(_i, "auto", 70);
}
END_TEST

START_TEST(any_form_with_each_variant)
{
    run_forced(3 + _i % 2, dma_variants[_i]->name, 40);
}
END_TEST

/* Messages carry out all non-blocking calls: nothing else is possible. */
static void by_messages(rank_t *r)
{
    for (uint64_t i = 0; i < 40; i++) {
        run_flight(r, (unit_seed() * 4096 + i) * 16, false);
    }
    must(r, dma_comm_state(r->comms[0]) == DMA_COMM_ASIDE, "state %d", dma_comm_state(r->comms[0]));
}

START_TEST(any_operation_by_messages)
{
    job_t job = threads_job(_i, by_messages);

    job.ncomms = 1;
    job.params.arena_bytes = 0;
    threads_run(&job);
}
END_TEST

/* Ranks with different sizes of all buffers agree on what all have room for. */
static void differ(int rank, dma_params_t *params)
{
    params->ring_depth = rank == 0 ? 4 : 64;
    params->slot_bytes = rank == 1 ? 512 : 16384;
    params->chunk_bytes = rank == 2 ? 4096 : 32768 >> rank;
    params->chunk_depth = rank == 0 ? 8 : 2;
}

START_TEST(parameters_of_ranks_differ)
{
    static const int rounds = 60;
    job_t job = threads_job(_i, body);

    job.ncomms = 1;
    job.arg = &rounds;
    job.tune = differ;
    threads_run(&job);
}
END_TEST

/* Many more channels than the arena has room for. Each of them works, for all sizes, and each rank starts them in
 * its own order. */
static void many_channels(rank_t *r)
{
    enum { MOST = 200 };
    static const size_t sizes[] = {4100, 60, 30000, 700};
    dma_channel_t *channels[MOST];
    item_t items[4];
    int n = 0;

    for (int i = 0; i < 4; i++) {
        items[i] = (item_t){.number = (uint64_t)i, .n = r->n, .rank = r->rank, .most = 1};
        items[i].send_type = items[i].recv_type = (vector_type_t){.piece = sizes[i], .stride = sizes[i]};
        place_blocks(&items[i]);
        items[i].send = malloc(items[i].send_bytes);
        items[i].recv = malloc(items[i].recv_bytes);
        items[i].call = (dma_call_t){
            .coll = DMA_ALLGATHER,
            .send = side(items[i].send, &items[i].send_type, false, items[i].send_counts, NULL),
            .recv = side(items[i].recv, &items[i].recv_type, false, items[i].recv_counts, NULL),
        };
    }
    for (; n < MOST; n++) {
        must(r, dma_channel_create(r->comms[0], &items[n % 4].call, done, &items[n % 4], &channels[n]) == DMA_OK,
             "no channel %d", n);
    }
    threads_barrier(r);
    must(r, reports_count("channel") > 8, "there was room for all but %d", reports_count("channel"));
    for (int i = 0; i < n; i++) {
        item_t *it = &items[i % 4];

        fill(it);
        it->outcome = 0;
        must(r, dma_channel_start(channels[i], NULL) == DMA_OK, "channel %d of %d", i, n);
        item_wait(r, it);
        item_check(r, it);
    }
    for (int i = 0; i < n; i++) {
        dma_channel_destroy(channels[i]);
    }
    for (int i = 0; i < 4; i++) {
        free(items[i].send);
        free(items[i].recv);
    }
}

START_TEST(arena_full_of_channels)
{
    job_t job = threads_job(_i, many_channels);

    job.ncomms = 1;
    job.params.arena_bytes = 1 << 20;
    job.params.cross_memory = 0;
    threads_run(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_channel_memory), 0);
}
END_TEST

/* ---- empty sides at NULL ---- */

/* An all-to-all-v in which even ranks send nothing, from NULL, and odd ones receive nothing, into NULL. */
static void from_null(rank_t *r)
{
    int some[MAX_RANKS], none[MAX_RANKS] = {0}, displs[MAX_RANKS], below[MAX_RANKS];
    bool odd = r->rank % 2;
    uint8_t send[MAX_RANKS * 8], recv[MAX_RANKS * 8];
    dma_call_t call = {
        .coll = DMA_ALLTOALLV, .send = data_buffer(odd ? send : NULL, 0), .recv = data_buffer(odd ? NULL : recv, 0)};

    for (int p = 0; p < r->n; p++) {
        some[p] = p % 2 == odd ? 0 : 8;
        displs[p] = 8 * p;
        below[p] = -8 * p;
    }
    memset(send, r->rank, sizeof(send));
    memset(recv, GAP, sizeof(recv));
    threads_prepare(r, r->comms[0]);
    call.send.counts = odd ? some : none;
    call.recv.counts = odd ? none : some;
    call.send.displs = odd ? displs : below;
    call.recv.displs = odd ? below : displs;
    for (int i = 0; i < 3; i++) {
        dma_status_t status;

        call.send.dense = odd || i == 0; /* or the empty side has a derived type */
        call.recv.dense = !odd || i == 0;
        status = dma_comm_run(r->comms[0], &call);
        must(r, status == DMA_OK, "%s: %s", dma_status_name(status), dma_comm_reason(r->comms[0]));
        for (int at = 0; at < 8 * r->n; at++) {
            must(r, recv[at] == (!odd && at / 8 % 2 ? at / 8 : GAP), "byte %d is %u", at, recv[at]);
        }
    }
}

START_TEST(nothing_from_null)
{
    for (int n = 2; n <= 5; n++) {
        job_t job = threads_job(n, from_null);

        threads_run(&job);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("forms");
    int variants = 0;

    while (dma_variants[variants]) {
        variants++;
    }
    unit_loop(suite, any_form_of_any_operation, 2, 6, 60);
    unit_loop(suite, any_form_with_each_variant, 0, variants, 60);
    unit_loop(suite, any_operation_by_messages, 2, 5, 60);
    unit_loop(suite, parameters_of_ranks_differ, 2, 5, 60);
    unit_loop(suite, arena_full_of_channels, 2, 4, 60);
    unit_test(suite, nothing_from_null, 20);
    return unit_main(suite);
}
