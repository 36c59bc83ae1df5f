/*
 * Persistent calls that come and go, with ranks as threads: what making one costs, and that nothing of them is left, in whatever
 * order the ranks free them.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/comm.h"
#include "device/device.h"
#include "libthreads.h"
#include "libunit.h"

#define LIMIT 60 /* seconds; a test takes less than two */

enum { RANKS = 3, ALIVE = 8, MOST_BLOCK = 500 };

/* A persistent call with its memory; the sizes of an all-gather-v and an all-to-all-v differ between ranks. */
typedef struct persistent {
    dma_channel_t *channel;
    dma_call_t call;
    int counts[RANKS], displs[RANKS];
    uint8_t send[RANKS * MOST_BLOCK], recv[RANKS * MOST_BLOCK];
    int salt;
    bool done;
} persistent_t;

static void note_done(void *arg, dma_status_t status)
{
    *(bool *)arg = status == DMA_OK;
}

static size_t block_bytes(const persistent_t *p, int from, int to)
{
    switch (p->call.coll) {
    case DMA_ALLGATHERV:
        return p->call.recv.count * (size_t)(1 + from) / RANKS;
    case DMA_ALLTOALLV:
        return p->call.recv.count * (size_t)(1 + (from + to) % RANKS) / RANKS;
    default:
        return p->call.recv.count;
    }
}

static uint8_t value(const persistent_t *p, int from, int to, size_t i)
{
    return (uint8_t)(p->salt + from * 31 + (dma_coll_gathers(p->call.coll) ? 0 : to * 7) + (int)i);
}

static dma_status_t make(rank_t *r, persistent_t *p, dma_coll_t coll, size_t bytes)
{
    bool many = coll == DMA_ALLGATHERV || coll == DMA_ALLTOALLV;

    memset(p, 0, sizeof(*p));
    p->call = (dma_call_t){.coll = coll, .send = data_buffer(p->send, bytes), .recv = data_buffer(p->recv, bytes)};
    for (int from = 0; many && from < RANKS; from++) {
        p->counts[from] = (int)block_bytes(p, from, r->rank);
        p->displs[from] = from * MOST_BLOCK;
    }
    if (many) {
        p->call.recv.counts = p->counts;
        p->call.recv.displs = p->displs;
        p->call.recv.width = sizeof(int);
        p->call.send.count = block_bytes(p, r->rank, r->rank);
    }
    if (coll == DMA_ALLTOALLV) { /* as much as the other rank receives from this one: the sizes are symmetric */
        p->call.send = p->call.recv;
        p->call.send.addr = p->send;
    }
    return dma_channel_create(r->comms[0], &p->call, note_done, &p->done, &p->channel);
}

static uint8_t *block_at(const persistent_t *p, uint8_t *buffer, int rank)
{
    return buffer + (p->call.recv.counts ? (size_t)p->displs[rank] : (size_t)rank * p->call.recv.count);
}

static void start(rank_t *r, persistent_t *p, int salt)
{
    bool gathers = dma_coll_gathers(p->call.coll);

    p->salt = salt;
    p->done = false;
    for (int to = 0; to < (gathers ? 1 : RANKS); to++) {
        uint8_t *block = gathers ? p->send : block_at(p, p->send, to);

        for (size_t i = 0; i < block_bytes(p, r->rank, to); i++) {
            block[i] = value(p, r->rank, to, i);
        }
    }
    must(r, dma_channel_start(p->channel, NULL) == DMA_OK, "a start");
}

static void finish(rank_t *r, persistent_t *p)
{
    while (!p->done) {
        threads_host.progress();
    }
    for (int from = 0; from < RANKS; from++) {
        for (size_t i = 0; i < block_bytes(p, from, r->rank); i++) {
            must(r, block_at(p, p->recv, from)[i] == value(p, from, r->rank, i), "byte %zu from %d", i, from);
        }
    }
}

static dma_comm_state_t state_of(const persistent_t *p)
{
    return dma_comm_state(*(dma_comm_t **)(void *)p->channel);
}

/* ---- making one ---- */

static const dma_coll_t colls[] = {DMA_ALLGATHER, DMA_ALLGATHERV, DMA_ALLTOALL, DMA_ALLTOALLV};

/* One call of the communicator each, and no message: none could be sent. */
static void without_messages(rank_t *r)
{
    dma_comm_t *comm = r->comms[0];

    threads_prepare(r, comm);
    threads_barrier(r);
    group_fail_sends(r->job->groups[0], r->rank);
    threads_barrier(r);
    for (int i = 0; i < 4; i++) {
        persistent_t p;
        uint64_t calls = comm->seq;

        must(r, make(r, &p, colls[i], MOST_BLOCK) == DMA_OK, "%s", dma_comm_reason(comm));
        must(r, comm->seq == calls + 1, "%d calls", (int)(comm->seq - calls));
        must(r, state_of(&p) == DMA_COMM_READY, "state %d", (int)state_of(&p));
        start(r, &p, i);
        finish(r, &p);
        dma_channel_destroy(p.channel);
    }
}

START_TEST(one_call_makes_a_channel)
{
    job_t job = threads_job(RANKS, without_messages);

    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* ---- many, one after the other ---- */

static void draw_order(rank_t *r, int *order)
{
    for (int i = 0; i < ALIVE; i++) {
        int k = (int)threads_random(r, (uint32_t)i + 1);

        order[i] = order[k];
        order[k] = i;
    }
}

static void free_in_own_order(rank_t *r, persistent_t *all)
{
    int order[ALIVE];

    draw_order(r, order);
    for (int i = 0; i < ALIVE; i++) {
        finish(r, &all[order[i]]);
        dma_channel_destroy(all[order[i]].channel);
        if (threads_random(r, 10) == 0) { /* late: the others make the next ones */
            usleep(threads_random(r, 2000));
        }
    }
}

/* Ten times as many as find room at the same time. Each rank frees them in an order of its own, and some are late. */
static void come_and_go(rank_t *r)
{
    persistent_t *all = calloc(ALIVE, sizeof(*all));
    uint64_t same = 12345;
    size_t before;

    threads_prepare(r, r->comms[0]);
    before = dma_arena_used(r->proc->arena);
    for (int turn = 0; turn < 100; turn++) {
        for (int i = 0; i < ALIVE; i++) {
            same = same * UINT64_C(6364136223846793005) + 1442695040888963407;
            must(r, make(r, &all[i], colls[same >> 40 & 3], (size_t)(same >> 48) % MOST_BLOCK + 1) == DMA_OK, "%s",
                 dma_comm_reason(r->comms[0]));
            must(r, state_of(&all[i]) == DMA_COMM_READY, "number %d of turn %d found no room", i, turn);
            start(r, &all[i], turn + i);
        }
        free_in_own_order(r, all);
    }
    threads_barrier(r);
    must(r, dma_arena_used(r->proc->arena) == before, "%zu bytes are left in use",
         dma_arena_used(r->proc->arena) - before);
    free(all);
}

START_TEST(channels_come_and_go)
{
    job_t job = threads_job(RANKS, come_and_go);

    job.params.arena_bytes = 2 << 20;
    job.delay_us = 0;
    threads_run(&job);
    ck_assert_int_eq(reasons_count(DMA_REASON_channel_memory), 0);
}
END_TEST

/* ---- many at the same time ---- */

/* An all-to-all-v takes as much memory as a communicator, if it can have it. */
static void many(rank_t *r)
{
    enum { MANY = 200 };
    persistent_t *all = calloc(MANY, sizeof(*all));

    threads_prepare(r, r->comms[0]);
    for (int i = 0; i < MANY; i++) {
        must(r, make(r, &all[i], DMA_ALLTOALLV, MOST_BLOCK) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        must(r, state_of(&all[i]) == DMA_COMM_READY, "number %d finds no room", i);
    }
    for (int i = 0; i < MANY; i++) {
        start(r, &all[i], i);
    }
    for (int i = MANY - 1; i >= 0; i--) {
        finish(r, &all[i]);
        dma_channel_destroy(all[i].channel);
    }
    free(all);
}

START_TEST(the_first_leave_room_for_others)
{
    job_t job = threads_job(RANKS, many);

    job.params.arena_bytes = 32 << 20; /* the default */
    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* One rank alone has no room for the larger ones: all use messages for these. */
static void one_is_short(rank_t *r)
{
    persistent_t *p = calloc(1, sizeof(*p));
    int aside = 0;
    size_t before;

    threads_prepare(r, r->comms[0]);
    threads_barrier(r);
    group_fail_sends(r->job->groups[0], r->rank); /* no second set-up with messages: those of channels go elsewhere */
    threads_barrier(r);
    before = dma_arena_used(r->proc->arena);
    for (int i = 0; i < 12; i++) {
        must(r, make(r, p, colls[i % 4], i % 3 ? 20 : MOST_BLOCK) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        aside += state_of(p) == DMA_COMM_ASIDE;
        start(r, p, i);
        finish(r, p);
        dma_channel_destroy(p->channel);
    }
    must(r, aside > 0, "all found room");
    must(r, reasons_count(DMA_REASON_channel_memory) > 0, "nothing says why");
    threads_barrier(r);
    must(r, dma_arena_used(r->proc->arena) == before, "%zu bytes are left in use",
         dma_arena_used(r->proc->arena) - before);
    free(p);
}

static void shrink_arena(int rank, dma_params_t *params)
{
    params->arena_bytes = rank == 1 ? 40 << 10 : 2 << 20;
}

START_TEST(one_rank_has_no_room)
{
    job_t job = threads_job(RANKS, one_is_short);

    job.tune = shrink_arena;
    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* ---- without shared memory ---- */

static void run_without_memory(void (*body)(rank_t *r))
{
    job_t job = threads_job(RANKS, body);

    job.params.arena_bytes = 0;
    threads_run(&job);
}

/* Channels of a communicator that is ASIDE. Each rank starts and frees them in an order of its own. */
static void by_messages(rank_t *r)
{
    persistent_t *all = calloc(ALIVE, sizeof(*all));
    int order[ALIVE];

    must(r, dma_comm_prepare(r->comms[0]) == DMA_UNSUPPORTED, "there is shared memory");
    for (int turn = 0; turn < 20; turn++) {
        for (int i = 0; i < ALIVE; i++) {
            must(r, make(r, &all[i], colls[i % 4], MOST_BLOCK) == DMA_OK, "%s", dma_comm_reason(r->comms[0]));
        }
        draw_order(r, order);
        for (int i = 0; i < ALIVE; i++) {
            start(r, &all[order[i]], turn + order[i]);
        }
        free_in_own_order(r, all);
    }
    free(all);
}

START_TEST(starts_by_messages_match_in_any_order)
{
    run_without_memory(by_messages);
}
END_TEST

/* ---- arenas ---- */

enum { BLOCKS = 60, ARENA = 1 << 20 };

typedef struct taken {
    char *at;
    size_t bytes;
    char fill;
} taken_t;

static void check_block(const taken_t *t)
{
    for (size_t i = sizeof(dma_block_head_t); i < t->bytes; i++) {
        ck_assert_int_eq(t->at[i], t->fill);
    }
}

/* Blocks of random sizes, whose reader leaves before or after their owner: no two overlap, and all that is free in one place is
 * one piece. */
START_TEST(extents_cover_the_arena)
{
    taken_t all[BLOCKS] = {{0}};
    dma_arena_t *arena;
    const char *what;
    uint64_t rng = unit_seed();
    size_t below;
    int highest = 0;
    char *gap;

    ck_assert_int_eq(dma_arena_create(DMA_ARENA_MEMFD, ARENA, NULL, &arena, &what), DMA_OK);
    for (int step = 0; step < 20000; step++) {
        taken_t *t;

        rng = rng * UINT64_C(6364136223846793005) + 1442695040888963407;
        t = &all[(rng >> 40) % BLOCKS];
        if (t->at) {
            check_block(t);
            if (rng >> 60 & 1) {
                dma_block_leave(t->at);
                dma_arena_retire(arena, t->at);
            } else {
                dma_arena_retire(arena, t->at);
                dma_block_leave(t->at);
            }
            t->at = NULL;
        } else {
            t->bytes = sizeof(dma_block_head_t) + (rng >> 20) % 30000;
            t->fill = (char)step;
            if ((t->at = dma_arena_alloc(arena, t->bytes, 0, 1))) {
                memset(t->at + sizeof(dma_block_head_t), t->fill, t->bytes - sizeof(dma_block_head_t));
            }
        }
    }
    for (int i = 0; i < BLOCKS; i++) {
        highest = all[i].at > all[highest].at ? i : highest;
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (all[i].at && i != highest) {
            check_block(&all[i]);
            dma_arena_retire(arena, all[i].at);
            dma_block_leave(all[i].at);
        }
    }
    below = (size_t)(all[highest].at - dma_arena_base(arena)) - DMA_ARENA_ALIGN;
    ck_assert_uint_eq(dma_arena_used(arena),
                      (all[highest].bytes + DMA_ARENA_ALIGN - 1) / DMA_ARENA_ALIGN * DMA_ARENA_ALIGN);
    gap = dma_arena_alloc(arena, below, 0, 0);
    ck_assert_ptr_eq(gap, dma_arena_base(arena) + DMA_ARENA_ALIGN);
    dma_arena_retire(arena, gap);
    dma_arena_retire(arena, all[highest].at);
    dma_block_leave(all[highest].at);
    ck_assert_uint_eq(dma_arena_used(arena), 0);
    ck_assert_ptr_nonnull(dma_arena_alloc(arena, ARENA - DMA_ARENA_ALIGN, 0, 0));
    dma_arena_destroy(arena);
}
END_TEST

/* ---- ranks that fail in the call that makes a channel ---- */

/* Rank 0 has given up when rank 1 comes. Rank 1 finds all entries and has a channel, with a block of rank 0. When it leaves that
 * block, nothing else may be there. */
static void one_gives_up(rank_t *r)
{
    persistent_t p;
    dma_status_t status;

    threads_prepare(r, r->comms[0]);
    threads_prepare(r, r->comms[1]);
    threads_barrier(r);
    if (r->rank == 1) {
        threads_barrier(r);
    }
    status = make(r, &p, DMA_ALLGATHER, MOST_BLOCK);
    must(r, r->rank || status == DMA_ERR_TIMEOUT, "status %d", (int)status);
    if (r->rank == 0) {
        threads_barrier(r);
    }
    threads_barrier(r);
    if (r->rank == 0) {
        char *at = dma_arena_alloc(r->proc->arena, 64, 64, 7);

        threads_barrier(r);
        threads_barrier(r);
        must(r, ((dma_block_head_t *)(void *)at)->readers == 7, "%u readers",
             ((dma_block_head_t *)(void *)at)->readers);
    } else {
        threads_barrier(r);
        if (status == DMA_OK) {
            dma_channel_destroy(p.channel);
        }
        threads_barrier(r);
    }
}

static void soon(int rank, dma_params_t *params)
{
    params->entry_timeout = rank ? 0 : 0.2;
}

START_TEST(a_rank_gives_up)
{
    job_t job = threads_job(2, one_gives_up);

    job.tune = soon;
    job.ncomms = 2;
    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

/* What peers' engines may still write stays. */
static void fails_with_words(rank_t *r)
{
    dma_arena_t *arena;
    struct dma_device_comm *dc;
    size_t before;

    threads_prepare(r, r->comms[0]);
    arena = r->proc->arena;
    dc = dma_device_comm_of_host(r->comms[0]);
    dc->parts = calloc(1, 1000);
    before = dma_arena_used(arena);
    dc->parts_block = dma_arena_alloc(arena, 1024, 1024, 0);
    atomic_fetch_add(&r->proc->armed, 1);
    threads_barrier(r);
    dma_comm_lock(r->comms[0]);
    dma_comm_fail(r->comms[0], DMA_ERR_PEER, "a test");
    dma_comm_unlock(r->comms[0]);
    threads_barrier(r);
    dma_comm_destroy(r->comms[0]);
    r->comms[0] = NULL;
    threads_barrier(r);
    must(r, dma_arena_used(arena) == 1024, "%zu bytes, %zu before", dma_arena_used(arena), before);
}

START_TEST(words_stay)
{
    job_t job = threads_job(2, fails_with_words);

    job.delay_us = 0;
    threads_run(&job);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("channels");

    unit_test(suite, one_call_makes_a_channel, LIMIT);
    unit_test(suite, channels_come_and_go, LIMIT);
    unit_test(suite, the_first_leave_room_for_others, LIMIT);
    unit_test(suite, one_rank_has_no_room, LIMIT);
    unit_test(suite, starts_by_messages_match_in_any_order, LIMIT);
    unit_test(suite, extents_cover_the_arena, LIMIT);
    unit_test(suite, a_rank_gives_up, 10);
    unit_test(suite, words_stay, 10);
    return unit_main(suite);
}
