/*
 * Device memory that a program frees and allocates again, for example around each of its steps: engines carry out all calls, the
 * results are right, and memory that was freed is closed.
 */
#include <stdlib.h>

#include "core/comm.h"
#include "device/device.h"
#include "gpu/ipc.h"
#include "gpu/tied.h"
#include "libengine_call.h"
#include "libunit.h"

static const call_spec_t spec = {.coll = DMA_ALLTOALL, .elements = 700, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};

static void prepare(rank_t *r, dma_comm_t *comm)
{
    must(r, dma_comm_prepare(comm) == DMA_OK, "%s", dma_comm_reason(comm));
}

static void ends(rank_t *r, call_t *c, uint32_t calls)
{
    uint32_t served = call_runs(r->comms[0]);

    must(r, served == calls, "the engine has run %u times, not %u", served, calls);
    threads_barrier(r);
    call_free(c);
}

/* All ranks, or one of them, at the same address each time: the other's memory there must not be in the way. */
static void same_address(rank_t *r)
{
    const int *who = r->job->arg;
    call_t *c = call_make(r, &spec);

    prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 2 * DEVICE_SLOTS; tag++) {
        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        if (*who < 0 || *who == r->rank) {
            call_move(r, c, true);
        }
        threads_barrier(r);
    }
    ends(r, c, 2 * DEVICE_SLOTS);
}

START_TEST(freed_and_allocated_at_the_same_address)
{
    job_t job = call_job(3, same_address, NULL);
    int who = _i - 1;

    job.arg = &who;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* Another allocation, elsewhere, a call later: of what has been freed before nothing is open in any process any more. */
static void elsewhere(rank_t *r)
{
    call_t *c = call_make(r, &spec);

    prepare(r, r->comms[0]);
    for (uint64_t tag = 1; tag <= 10; tag++) {
        uint64_t kept;

        call_run(r, r->comms[0], c, tag);
        threads_barrier(r);
        kept = fake_gpu_kept();
        must(r, !kept, "%llu bytes that were freed are open after call %llu", (unsigned long long)kept,
             (unsigned long long)tag);
        threads_barrier(r);
        call_move(r, c, false);
        threads_barrier(r);
    }
    ends(r, c, 10);
}

START_TEST(freed_memory_is_given_back)
{
    job_t job = call_job(3, elsewhere, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/*
 * A program that allocates a buffer for each call. After the first ones, what is received goes through scratch memory. A buffer
 * that comes again is opened in its third call, and from then on new ones are opened at once.
 */
typedef struct churn {
    unsigned calls;    /* with each buffer */
    unsigned buffers;  /* in all */
    bool always_moves; /* each one is at another address */
    unsigned before;   /* as many buffers of one call come before */
} churn_t;

static void churns(rank_t *r)
{
    const churn_t *churn = r->job->arg;
    call_t *c = call_make(r, &spec);
    uint64_t tag = 0;

    prepare(r, r->comms[0]);
    for (unsigned i = 0; i < churn->before + churn->buffers; i++) {
        for (unsigned k = 0; k < (i < churn->before ? 1 : churn->calls); k++) {
            call_run(r, r->comms[0], c, ++tag);
            threads_barrier(r);
        }
        call_move(r, c, !churn->always_moves);
        threads_barrier(r);
    }
    ends(r, c, churn->before + churn->buffers * churn->calls);
}

START_TEST(buffers_that_are_freed_soon)
{
    static const churn_t cases[] = {
        {.calls = 1, .buffers = 40},
        {.calls = 1, .buffers = 40, .always_moves = true},
        {.calls = 2, .buffers = 40},
        {.calls = 3, .buffers = 40},
        {.calls = 4, .buffers = 20, .always_moves = true},
        {.calls = 3, .buffers = 40, .before = 4},
        {.calls = 4, .buffers = 20, .always_moves = true, .before = 4},
    };
    const churn_t *churn = &cases[_i];
    bool brief = churn->calls < DMA_IPC_BRIEF_CALLS;
    job_t job = call_job(2, churns, NULL);
    unsigned opened;

    job.arg = (void *)(uintptr_t)churn;
    threads_run(&job);
    opened = fake_gpu_calls("ipc_open");
    engine_end();
    fake_gpu_stop();
    if (brief) {
        /* the first three, as a buffer that is freed is missed when the next one is published, and scratch memory */
        ck_assert_uint_le(opened, 2 * 5);
        ck_assert_uint_ge(reasons_count(DMA_REASON_memory_brief), 2 * 30 * churn->calls);
    } else {
        /* the first one that lives longer ends it, once its end has been noticed */
        ck_assert_uint_ge(opened, 2 * churn->buffers);
        ck_assert_uint_le(reasons_count(DMA_REASON_memory_brief), churn->before ? 2 * (1 + 2 * 2) : 0);
    }
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* After buffers that were freed soon comes one that stays. */
static void settles(rank_t *r)
{
    enum { MOVES = 10, STAYS = 20 };
    call_t *c = call_make(r, &spec);
    uint64_t tag = 0;
    unsigned opened;

    prepare(r, r->comms[0]);
    for (int i = 0; i < MOVES; i++) {
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        call_move(r, c, true);
        threads_barrier(r);
    }
    opened = fake_gpu_calls("ipc_open");
    threads_barrier(r);
    for (int i = 0; i < STAYS; i++) {
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        must(r, (fake_gpu_calls("ipc_open") > opened) == (i >= DMA_IPC_BRIEF_CALLS - 1),
             "call %d: %u imports, before %u", i, fake_gpu_calls("ipc_open"), opened);
        threads_barrier(r);
    }
    ends(r, c, MOVES + STAYS);
}

START_TEST(a_buffer_that_stays)
{
    job_t job = call_job(2, settles, NULL);

    call_run_job(&job);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* A buffer that was used for long is freed, and others that are freed soon follow. Its memory is given back. */
static void long_one_before(rank_t *r)
{
    enum { SOON = 5, LONG = 6, AFTER = 3 };
    call_t *c = call_make(r, &spec);
    uint64_t tag = 0, kept;

    prepare(r, r->comms[0]);
    for (int i = 0; i < SOON + LONG + AFTER; i++) {
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        kept = fake_gpu_kept();
        must(r, i < SOON || !kept, "%llu bytes that were freed are open after call %d", (unsigned long long)kept, i);
        threads_barrier(r);
        if (i < SOON || i >= SOON + LONG - 1) {
            call_move(r, c, false);
        }
        threads_barrier(r);
    }
    ends(r, c, SOON + LONG + AFTER);
}

START_TEST(a_long_one_is_given_back)
{
    job_t job = call_job(2, long_one_before, NULL);

    call_run_job(&job);
    ck_assert_uint_gt(reasons_count(DMA_REASON_memory_brief), 2 * 3);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* Without scratch memory, or without room for it on the device, a new buffer is opened. */
START_TEST(no_scratch_for_such_buffers)
{
    static const churn_t churn = {.calls = 1, .buffers = 10};
    job_t job = call_job(2, churns, NULL);

    job.arg = (void *)(uintptr_t)&churn;
    if (_i == 0) {
        job.params.scratch_bytes = 0;
    } else {
        fake_gpu_fail_often("alloc", 0, 1000, DMA_ERR_NOMEM);
    }
    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_memory_brief), 0);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/*
 * Such a buffer, and a send side that needs scratch memory too. They do not both fit, because another call has most of it: peers open
 * the buffer, and what is sent goes through scratch memory as a whole, or in pieces. No call goes through the host.
 */
typedef struct crowded {
    uint64_t taken; /* by the other call */
    bool pieces;
} crowded_t;

enum { CROWDED_BYTES = 256 << 10, CROWDED_MOVES = 6 };

static void crowded(rank_t *r)
{
    const crowded_t *how = r->job->arg;
    call_spec_t from_host = {.coll = DMA_ALLTOALL, .elements = 20000, .send = PLACE_HOST, .recv = PLACE_DEVICE};
    call_spec_t first = {.coll = DMA_ALLTOALL, .elements = 10, .send = PLACE_DEVICE, .recv = PLACE_DEVICE};
    call_t *c = call_make(r, &from_host), *begins = call_make(r, &first);
    dma_lease_t *taken;
    uint64_t tag = 0;

    prepare(r, r->comms[0]);
    call_run(r, r->comms[0], begins, ++tag);
    for (int i = 0; i < CROWDED_MOVES; i++) {
        call_run(r, r->comms[0], c, ++tag);
        threads_barrier(r);
        call_move(r, c, false);
        threads_barrier(r);
    }
    must(r, call_counted(r, DMA_COUNT_REASON + DMA_REASON_memory_brief) > 0, "no buffer counts as freed soon");
    must(r, !call_counted(r, DMA_COUNT_calls_pieces), "in pieces although all fits");
    must(r,
         dma_lease_take(r->proc,
                        &(dma_lease_want_t){.kind = DMA_LEASE_DEVICE,
                                            .rt = r->proc->runtime,
                                            .device = r->rank,
                                            .bytes = how->taken,
                                            .least = how->taken},
                        &taken) == DMA_OK,
         "there is no scratch memory");
    call_run(r, r->comms[0], c, ++tag);
    must(r, !!call_counted(r, DMA_COUNT_calls_pieces) == how->pieces, "%lu calls in pieces",
         call_counted(r, DMA_COUNT_calls_pieces));
    must(r, !call_counted(r, DMA_COUNT_calls_staged), "%lu calls through the host",
         call_counted(r, DMA_COUNT_calls_staged));
    threads_barrier(r);
    dma_lease_give_back(r->proc, taken);
    call_free(begins);
    call_free(c);
}

START_TEST(such_a_buffer_beside_another_side)
{
    static const crowded_t cases[] = {{.taken = 160 << 10}, {.taken = 210 << 10, .pieces = true}};
    job_t job = call_job(3, crowded, NULL);

    job.arg = (void *)(uintptr_t)&cases[_i];
    job.params.scratch_bytes = CROWDED_BYTES;
    job.own_counters = true;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/*
 * A runtime that keeps the block of each small allocation that was exported. This rank exports a bounded number of them. The
 * engine carries out all calls, into scratch memory.
 */
static bool holds(uint64_t addr)
{
    (void)addr;
    return true;
}

static void kept_blocks(rank_t *r)
{
    enum { CALLS = 2 * DMA_TIED_MOST };
    call_t *c = call_make(r, &spec);
    ptrdiff_t at = c->recv.at - c->recv.base;
    char *memory[CALLS + 1];

    prepare(r, r->comms[0]);
    memory[0] = c->recv.base;
    for (uint64_t tag = 1; tag <= CALLS; tag++) {
        call_run(r, r->comms[0], c, tag);
        c->recv.base = memory[tag] = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, DMA_TIED_BLOCK_BYTES - 4096);
        c->recv.at = c->recv.base + at;
        c->call.recv.addr = c->recv.at;
    }
    threads_barrier(r);
    for (int i = 0; i < CALLS; i++) {
        fake_gpu_free(memory[i]);
    }
    ends(r, c, CALLS);
}

START_TEST(blocks_of_small_allocations)
{
    job_t job = call_job(2, kept_blocks, NULL);
    dma_gpu_runtime_t *rt = (dma_gpu_runtime_t *)(uintptr_t)job.runtime;
    unsigned exports;

    rt->holds = holds;
    threads_run(&job);
    exports = fake_gpu_calls("ipc_export");
    engine_end();
    fake_gpu_stop();
    ck_assert_uint_le(exports, 2 * (DMA_TIED_MOST + 10)); /* the list is the process's, which has two ranks here */
    ck_assert_uint_ge(reasons_count(DMA_REASON_memory_tied), DMA_TIED_MOST);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* A runtime that has not yet released freed memory: the call goes through the host, its reason is counted, and the engine carries
 * out the next call again. */
static void held(rank_t *r)
{
    call_t *c = call_make(r, &spec);

    prepare(r, r->comms[0]);
    call_run(r, r->comms[0], c, 1);
    threads_barrier(r);
    if (r->rank == 0) {
        call_move(r, c, true);
        fake_gpu_fail_often("ipc_close", 0, 2, DMA_AGAIN); /* when it is closed, and when that is tried again */
    }
    threads_barrier(r);
    call_run(r, r->comms[0], c, 2);
    call_run(r, r->comms[0], c, 3);
    ends(r, c, 2);
}

START_TEST(freed_memory_is_still_held)
{
    job_t job = call_job(2, held, NULL);

    call_run_job(&job);
    ck_assert_uint_eq(reasons_count(DMA_REASON_open_held), 1);
    ck_assert_uint_eq(reasons_count(DMA_REASON_open_failed), 0);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* On two communicators: the second opens what takes the place of what the first has open still. */
static void on_two(rank_t *r)
{
    call_t *c = call_make(r, &spec);

    prepare(r, r->comms[0]);
    prepare(r, r->comms[1]);
    for (uint64_t tag = 1; tag <= 40; tag++) {
        call_run(r, r->comms[tag % 2], c, tag);
        threads_barrier(r);
        call_move(r, c, true);
        threads_barrier(r);
    }
    ends(r, c, 20);
}

START_TEST(on_two_communicators)
{
    job_t job = call_job(3, on_two, NULL);

    job.ncomms = 2;
    call_run_job(&job);
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
}
END_TEST

/* Buffers in large allocations, all alive: no more of them stays open than bytes are kept, and all are served. */
static void large(rank_t *r)
{
    enum { LARGE = 5 };
    const uint64_t bytes = DEVICE_KEPT_BYTES / 3 - 4096;
    call_t *calls[LARGE];
    uint32_t served;

    prepare(r, r->comms[0]);
    for (int i = 0; i < LARGE; i++) {
        call_t *c = calls[i] = call_make(r, &spec);
        ptrdiff_t at = c->recv.at - c->recv.base;

        fake_gpu_free(c->recv.base);
        c->recv.base = fake_gpu_alloc(DMA_GPU_DEVICE_PLAIN, r->rank, bytes);
        c->recv.at = c->recv.base + at;
        c->call.recv.addr = c->recv.at;
    }
    for (uint64_t tag = 0; tag < 40; tag++) {
        /* each in turn, then each several times */
        call_run(r, r->comms[0], calls[tag < 20 ? tag % LARGE : tag / 4 % LARGE], tag + 1);
        for (int p = 0; p < r->n; p++) {
            uint64_t kept = 0;

            for (int s = 0; s < DEVICE_SLOTS; s++) {
                kept += r->comms[0]->device->peers[p].size[s];
            }
            must(r, kept && kept <= DEVICE_KEPT_BYTES, "%llu bytes of rank %d are kept", (unsigned long long)kept, p);
        }
    }
    served = call_runs(r->comms[0]);
    must(r, served == 40, "the engine has run %u times", served);
    threads_barrier(r);
    for (int i = 0; i < LARGE; i++) {
        call_free(calls[i]);
    }
}

START_TEST(large_allocations)
{
    job_t job = call_job(2, large, NULL);
    unsigned opened;

    threads_run(&job);
    opened = fake_gpu_calls("ipc_open");
    engine_end();
    fake_gpu_stop();
    ck_assert_int_eq(reports_count("open") + reports_count("device off"), 0);
    /* each rank opens the other's: in 20 turns in which none of five is open any more, then the first of four five times */
    ck_assert_uint_eq(opened, 2 * 25);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("device_freed");

    unit_loop(s, freed_and_allocated_at_the_same_address, 0, 4, 30);
    unit_test(s, freed_memory_is_given_back, 20);
    unit_test(s, freed_memory_is_still_held, 20);
    unit_loop(s, buffers_that_are_freed_soon, 0, 7, 60);
    unit_test(s, a_long_one_is_given_back, 60);
    unit_test(s, a_buffer_that_stays, 60);
    unit_loop(s, no_scratch_for_such_buffers, 0, 2, 60);
    unit_loop(s, such_a_buffer_beside_another_side, 0, 2, 30);
    unit_test(s, blocks_of_small_allocations, 30);
    unit_test(s, on_two_communicators, 20);
    unit_test(s, large_allocations, 20);
    return unit_main(s);
}
