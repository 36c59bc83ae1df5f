/*
 * The emulated SDMA engines, in time: what is in order, what is not, and which queue has the engine. Where the engine
 * may choose, several seeds run: what must hold is true for all seeds, and what may happen is true for some.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "../emu/sdma_packet.h"
#include "libunit.h"

#define SEEDS 40
#define WORD  BENCH_HOST
#define FLAG  (BENCH_HOST + 64)
#define GO    (BENCH_HOST + 128)

static bench_t b;
static emu_sdma_engine_t *engine;
static bench_queue_t *q;

static void begin_with(const emu_sdma_config_t *config)
{
    bench_begin(&b, config);
    engine = bench_engine(&b, 1, 4, EMU_SDMA_XGMI);
    q = bench_queue(&b, 0, engine, 4096);
    *bench_word(&b, WORD) = *bench_word(&b, FLAG) = *bench_word(&b, GO) = 0;
}

static void begin(uint64_t seed)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed() + seed);

    begin_with(&config);
}

static void end(void)
{
    ck_assert_msg(b.reported == 0, "%s", b.text);
    bench_end(&b);
}

static emu_sdma_state_t step(void)
{
    return emu_sdma_engine_step(engine, 1);
}

static bool equal(uint64_t x, uint64_t y, uint64_t bytes)
{
    return memcmp(bench_at(&b, x), bench_at(&b, y), bytes) == 0;
}

/* Nothing of a copy to x has been done: all words differ. */
static bool untouched(uint64_t x, uint64_t y, uint64_t bytes)
{
    const char *px = bench_at(&b, x), *py = bench_at(&b, y);

    for (uint64_t at = 0; at < bytes; at += 4) {
        if (memcmp(px + at, py + at, 4) == 0) {
            return false;
        }
    }
    return true;
}

static const emu_sdma_stats_t *stats(unsigned i)
{
    return emu_sdma_queue_stats(b.queues[i].queue);
}

/* The second of two copies ends first. The last byte of a copy is written before its first. At the end all are there. */
START_TEST(copies_overtake)
{
    unsigned overtaken = 0, backward = 0, early = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        bool over = false, back = false, fetched = false;

        begin(seed);
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 4096);
        put_copy(q, BENCH_GPU(3), BENCH_GPU(1), 4096);
        bench_ring(q);
        while (step() == EMU_SDMA_PROGRESSED) {
            bool first = equal(BENCH_GPU(2), BENCH_GPU(1), 4096);

            over |= !first && equal(BENCH_GPU(3), BENCH_GPU(1), 4096);
            back |= !equal(BENCH_GPU(2), BENCH_GPU(1), 4) && equal(BENCH_GPU(2) + 4092, BENCH_GPU(1) + 4092, 4);
            fetched |= !first && q->rptr == q->wptr;
        }
        ck_assert(equal(BENCH_GPU(2), BENCH_GPU(1), 4096) && equal(BENCH_GPU(3), BENCH_GPU(1), 4096));
        overtaken += over;
        backward += back;
        early += fetched;
        end();
    }
    ck_assert_uint_gt(overtaken, 0);
    ck_assert_uint_lt(overtaken, SEEDS);
    ck_assert_uint_gt(backward, 0);
    ck_assert_uint_eq(early, SEEDS); /* the read pointer says nothing about the data */
}
END_TEST

/* A copy reads what the memory contains at some moment between its issue and its end. */
START_TEST(source_read_late)
{
    unsigned old = 0, new = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        uint32_t got;

        begin(seed);
        *bench_word(&b, BENCH_GPU(1)) = 1;
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 4096);
        bench_ring(q);
        for (unsigned i = 0; i < 60; i++) {
            step();
        }
        *bench_word(&b, BENCH_GPU(1)) = 2;
        bench_run(engine, 1);
        got = *bench_word(&b, BENCH_GPU(2));
        old += got == 1;
        new += got == 2;
        end();
    }
    ck_assert_uint_eq(old + new, SEEDS);
    ck_assert(old && new);
}
END_TEST

/* TRAP, ATOMIC, and FENCE with a POLL of its word come after all that precedes them and before all that follows them. */
START_TEST(drains)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        unsigned unequal_before = 0;

        begin(seed);
        for (unsigned i = 0; i < 3; i++) {
            put_copy(q, BENCH_GPU(2) + 4096 * i, BENCH_GPU(1) + 4096 * i, 3000);
        }
        put_fill(q, BENCH_GPU(3), 0x11223344, 4);
        switch (_i) {
        case 0:
            put_fence(q, WORD, 1);
            put_poll(q, 3, WORD, 1, EMU_SDMA_FOREVER);
            break;
        case 1:
            put_trap(q, 1);
            break;
        default:
            put_atomic(q, 47, WORD, 1, 0);
        }
        put_copy(q, BENCH_GPU(2) + 4096 * 3, BENCH_GPU(1) + 4096 * 3, 3000);
        bench_ring(q);
        while (step() != EMU_SDMA_IDLE) {
            bool passed = *bench_word(&b, WORD) || b.traps;

            if (passed) {
                ck_assert(equal(BENCH_GPU(2), BENCH_GPU(1), 3000));
                ck_assert(equal(BENCH_GPU(2) + 4096, BENCH_GPU(1) + 4096, 3000));
                ck_assert(equal(BENCH_GPU(2) + 8192, BENCH_GPU(1) + 8192, 3000));
                ck_assert_uint_eq(*bench_word(&b, BENCH_GPU(3)), 0x11223344);
            } else {
                unequal_before++;
                ck_assert(untouched(BENCH_GPU(2) + 12288, BENCH_GPU(1) + 12288, 3000));
            }
        }
        ck_assert_uint_gt(unequal_before, 0);
        ck_assert(equal(BENCH_GPU(2) + 12288, BENCH_GPU(1) + 12288, 3000));
        end();
    }
}
END_TEST

/* Nothing after a POLL begins before its word has the value. What precedes the POLL goes on. */
START_TEST(poll_holds_back)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 20000);
        put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
        put_fence(q, FLAG, 1);
        bench_ring(q);
        ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_BLOCKED);
        ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_BLOCKED);
        ck_assert(equal(BENCH_GPU(2), BENCH_GPU(1), 20000));
        ck_assert_uint_eq(*bench_word(&b, FLAG), 0);
        ck_assert_uint_eq(q->rptr, 4 * (7 + 6)); /* the POLL itself has been fetched */
        *bench_word(&b, GO) = 1;
        ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_IDLE);
        ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_IDLE);
        ck_assert_uint_eq(*bench_word(&b, FLAG), 1);
        ck_assert_uint_gt(stats(0)->blocked_ns, 0);
        end();
    }
}
END_TEST

/* A POLL or COND_EXE that passes, and a FENCE that nobody waits for, do not mean that earlier copies have ended. */
START_TEST(what_does_not_drain)
{
    unsigned overtaken = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        bool over = false;

        begin(seed);
        *bench_word(&b, GO) = 1;
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 20000);
        if (_i == 0) {
            put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
        } else if (_i == 1) {
            put_cond(q, GO, 7);
        } else {
            put_fence(q, WORD, 1);
        }
        put_copy(q, BENCH_GPU(3), BENCH_GPU(1), 8);
        bench_ring(q);
        while (step() == EMU_SDMA_PROGRESSED) {
            over |= equal(BENCH_GPU(3), BENCH_GPU(1), 8) && !equal(BENCH_GPU(2), BENCH_GPU(1), 20000);
        }
        overtaken += over;
        end();
    }
    ck_assert_uint_gt(overtaken, 0);
}
END_TEST

/* How many polls a POLL needs until it sees a value that is there already. */
static unsigned looks_needed(unsigned looks, uint64_t ns, uint64_t seed, uint64_t *time)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed() + seed);
    uint64_t before, start;

    config.stale_looks = looks;
    config.stale_ns = ns;
    begin_with(&config);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 20), EMU_SDMA_BLOCKED);
    before = stats(0)->looks;
    start = b.now;
    *bench_word(&b, GO) = 1;
    ck_assert_int_eq(bench_run(engine, 10000), EMU_SDMA_IDLE);
    *time = b.now - start;
    before = stats(0)->looks - before;
    end();
    return before;
}

START_TEST(stale_is_bounded)
{
    unsigned most = 0, looks;
    uint64_t time, longest = 0;

    for (unsigned seed = 0; seed < 10 * SEEDS; seed++) {
        ck_assert_uint_eq(looks_needed(0, 1000000, seed, &time), 1);
        looks = looks_needed(3, 1000000, seed, &time);
        ck_assert_uint_le(looks, 4);
        most = looks > most ? looks : most;
        looks_needed(1000000, 400, seed, &time);
        ck_assert_uint_le(time, 400 + 3 * b.tick);
        longest = time > longest ? time : longest;
    }
    ck_assert_uint_ge(most, 3);
    ck_assert_uint_gt(longest, 200);
}
END_TEST

/* A value that an earlier POLL saw is not followed by an older one in a later POLL. */
START_TEST(never_stale_from_before)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        begin(seed);
        *bench_word(&b, GO) = 1;
        put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
        bench_ring(q);
        ck_assert_int_eq(bench_run(engine, 20), EMU_SDMA_IDLE);
        *bench_word(&b, GO) = 0;
        put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
        bench_ring(q);
        ck_assert_int_eq(bench_run(engine, 200), EMU_SDMA_BLOCKED);
        end();
    }
}
END_TEST

/* While a swap runs, one side may be written and the other not yet. */
START_TEST(swap_in_pieces)
{
    unsigned torn = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        bool same = false;

        begin(seed);
        put_swap(q, BENCH_GPU(1), BENCH_GPU(2), 256);
        bench_ring(q);
        while (step() == EMU_SDMA_PROGRESSED) {
            for (unsigned at = 0; at < 256; at += 4) {
                same |= equal(BENCH_GPU(1) + at, BENCH_GPU(2) + at, 4);
            }
        }
        torn += same;
        end();
    }
    ck_assert_uint_eq(torn, SEEDS);
}
END_TEST

/* A queue that polls keeps the engine for one slice, not less and not much more, and gets it again later. */
START_TEST(slices)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());
    bench_queue_t *other;
    uint64_t start;

    config.slice_ns = _i * 1000000;
    begin_with(&config);
    b.tick = 10000;
    other = bench_queue(&b, 1, engine, 4096);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
    put_fence(q, FLAG, 1);
    bench_ring(q);
    bench_run(engine, 1);
    start = b.now;
    put_fence(other, WORD, 1);
    bench_ring(other);
    while (!*bench_word(&b, WORD) && b.now - start < 2 * config.slice_ns) {
        step();
    }
    ck_assert_uint_ge(b.now - start, config.slice_ns - 5 * b.tick);
    ck_assert_uint_le(b.now - start, config.slice_ns + 10 * b.tick);
    *bench_word(&b, GO) = 1;
    ck_assert_int_eq(bench_run(engine, 20), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 1);
    ck_assert_uint_eq(stats(0)->slices, 2);
    ck_assert_uint_eq(stats(1)->slices, 1);
    end();
}
END_TEST

START_TEST(slice_limit)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, 1);
    emu_sdma_env_t env = {0};

    config.slice_ns = EMU_SDMA_DEFAULT_SLICE - 1;
    ck_assert_ptr_null(emu_sdma_node_create(&config, &env));
}
END_TEST

/* Queues that all poll take turns. Another queue without work takes no turn. */
START_TEST(fair)
{
    begin(0);
    b.tick = 10000;
    for (unsigned i = 1; i < 5; i++) {
        bench_queue(&b, i, engine, 4096);
    }
    for (unsigned i = 0; i < 4; i++) {
        put_poll(&b.queues[i], 3, GO, 1, EMU_SDMA_FOREVER);
        bench_ring(&b.queues[i]);
    }
    while (b.now < 400000000) {
        step();
    }
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_uint_ge(stats(i)->slices, 90);
        ck_assert_uint_le(stats(i)->slices, 101);
    }
    ck_assert_uint_eq(stats(4)->slices, 0);
    end();
}
END_TEST

/* A queue without work leaves the engine at once. */
START_TEST(idle_leaves)
{
    bench_queue_t *other;

    begin(0);
    other = bench_queue(&b, 1, engine, 4096);
    put_fence(q, FLAG, 1);
    put_fence(other, WORD, 1);
    bench_ring(q);
    bench_ring(other);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_uint_lt(b.now, 10000);
    ck_assert(*bench_word(&b, FLAG) && *bench_word(&b, WORD));
    end();
}
END_TEST

/* Operations end before the next queue gets the engine, whatever their own queue waits for. */
START_TEST(change_drains)
{
    for (unsigned seed = 0; seed < SEEDS; seed++) {
        bench_queue_t *other;

        begin(seed);
        b.tick = 200000;
        other = bench_queue(&b, 1, engine, 4096);
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 65536);
        put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
        put_fence(other, WORD, 1);
        bench_ring(q);
        step();
        bench_ring(other);
        for (unsigned i = 0; i < 1000 && !*bench_word(&b, WORD); i++) {
            step();
        }
        /* At 5 actions per slice, the copy was under way when the first slice ended. */
        ck_assert_uint_eq(*bench_word(&b, WORD), 1);
        ck_assert(equal(BENCH_GPU(2), BENCH_GPU(1), 65536));
        *bench_word(&b, GO) = 1;
        ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_IDLE);
        end();
    }
}
END_TEST

/* A queue that sleeps waits for its doorbell. A queue at work may see the write pointer earlier. */
START_TEST(doorbells)
{
    begin(0);
    put_fence(q, FLAG, 1);
    q->wptr = q->written;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 0);
    q->doorbell = q->wptr;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 1);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
    bench_ring(q);
    bench_run(engine, 1);
    put_fence(q, FLAG, 2);
    q->wptr = q->written;
    *bench_word(&b, GO) = 1;
    bench_run(engine, 20);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 2);
    q->doorbell = q->wptr;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_uint_eq(stats(0)->doorbells, 3);
    end();
}
END_TEST

/* Injected delays hold packets back, for a bounded time. */
START_TEST(delays)
{
    uint64_t longest = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed() + seed);

        config.delay_ns = 1000000;
        begin_with(&config);
        put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 64);
        put_fence(q, FLAG, 1);
        bench_ring(q);
        ck_assert_int_eq(bench_run(engine, 1000000), EMU_SDMA_IDLE);
        ck_assert_uint_eq(*bench_word(&b, FLAG), 1);
        ck_assert_uint_le(b.now, 3 * config.delay_ns + 100 * b.tick);
        longest = b.now > longest ? b.now : longest;
        end();
    }
    ck_assert_uint_gt(longest, 1000000);
}
END_TEST

/* A reset, requested or injected, kills the queues of its engine and no others. */
START_TEST(reset)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());
    emu_sdma_engine_t *second;

    config.reset_packet = _i ? 2 : 0;
    begin_with(&config);
    bench_queue(&b, 1, engine, 4096);
    second = bench_engine(&b, 1, 5, EMU_SDMA_XGMI);
    bench_queue(&b, 2, second, 4096);
    put_poll(q, 3, GO, 0, EMU_SDMA_FOREVER);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
    bench_ring(q);
    bench_run(engine, 10);
    if (!_i) {
        ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_BLOCKED);
        emu_sdma_engine_reset(engine);
    }
    ck_assert_uint_eq(b.resets, 1);
    put_fence(&b.queues[1], FLAG, 1);
    bench_ring(&b.queues[1]);
    ck_assert_int_eq(emu_sdma_engine_step(engine, 10), EMU_SDMA_DEAD);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 0);
    put_fence(&b.queues[2], FLAG, 1);
    bench_ring(&b.queues[2]);
    ck_assert_int_eq(bench_run(second, 1), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, FLAG), 1);
    end();
}
END_TEST

/* No reset or fault begins at a queue that is spared. */
START_TEST(spared)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());
    uint64_t rptr = 0, wptr = 32, doorbell = 32;
    emu_sdma_ring_t ring = {1, BENCH_RING(0), 4096, &rptr, &wptr, &doorbell, .spared = true};

    config.fault_packet = 2;
    config.reset_packet = 3;
    config.early_polls = 1;
    config.fault_kinds = config.hang_kinds = 1u << EMU_SDMA_NOP;
    config.spoil_kinds = 1u << EMU_SDMA_POLL;
    begin_with(&config);
    ck_assert_ptr_nonnull(emu_sdma_queue_create(engine, &ring));
    memset(q->ring, 0, 32);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_uint_eq(rptr, wptr);
    ck_assert_uint_eq(b.resets + b.faults, 0);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER); /* nor does a POLL end early */
    memcpy(q->ring + wptr, q->ring, 24);
    doorbell = wptr += 24;
    ck_assert_int_eq(bench_run(engine, 500), EMU_SDMA_BLOCKED);
    end();
}
END_TEST

/* No step does more actions than its limit, and none waits. */
START_TEST(budget)
{
    begin(0);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 200000);
    put_poll(q, 3, GO, 1, EMU_SDMA_FOREVER);
    bench_ring(q);
    for (unsigned i = 1; i < 100; i++) {
        uint64_t before = b.now;

        emu_sdma_engine_step(engine, i);
        ck_assert_uint_le(b.now - before, i * b.tick);
    }
    end();
}
END_TEST

static uint64_t trace(uint64_t seed)
{
    uint64_t sum = 0;

    begin(seed);
    bench_queue(&b, 1, engine, 4096);
    for (unsigned i = 0; i < 2; i++) {
        put_copy(&b.queues[i], BENCH_GPU(2) + 8192 * i, BENCH_GPU(1), 4096);
        put_swap(&b.queues[i], BENCH_GPU(3) + 8192 * i, BENCH_GPU(0) + 8192 * i, 4096);
        put_fence(&b.queues[i], FLAG + 4 * i, 1);
        bench_ring(&b.queues[i]);
    }
    while (step() == EMU_SDMA_PROGRESSED) {
        for (unsigned at = 0; at < 16384; at += 4) {
            sum = (sum ^ *bench_word(&b, BENCH_GPU(2) + at) ^ *bench_word(&b, BENCH_GPU(3) + at)) * 0x100000001b3ull;
        }
    }
    end();
    return sum;
}

/* The memory after every step depends on the seed only. */
START_TEST(deterministic)
{
    ck_assert_uint_eq(trace(1), trace(1));
    ck_assert_uint_eq(trace(2), trace(2));
    ck_assert_uint_ne(trace(1), trace(2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_sdma_order");

    unit_test(suite, copies_overtake, 20);
    unit_test(suite, source_read_late, 20);
    unit_loop(suite, drains, 0, 3, 20);
    unit_test(suite, poll_holds_back, 20);
    unit_loop(suite, what_does_not_drain, 0, 3, 20);
    unit_test(suite, stale_is_bounded, 60);
    unit_test(suite, never_stale_from_before, 20);
    unit_test(suite, swap_in_pieces, 20);
    unit_loop(suite, slices, 1, 6, 10);
    unit_test(suite, slice_limit, 10);
    unit_test(suite, fair, 20);
    unit_test(suite, idle_leaves, 10);
    unit_test(suite, change_drains, 20);
    unit_test(suite, doorbells, 10);
    unit_test(suite, delays, 30);
    unit_loop(suite, reset, 0, 2, 10);
    unit_test(suite, spared, 10);
    unit_test(suite, budget, 10);
    unit_test(suite, deterministic, 20);
    return unit_main(suite);
}
