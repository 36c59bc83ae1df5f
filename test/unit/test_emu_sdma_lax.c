/*
 * The emulated SDMA engines where programs that are not ours are spared a rule: what it forbids is carried out, and nothing else
 * is allowed by that. And queues that their owner stops.
 */
#include <check.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "../emu/sdma_packet.h"
#include "libunit.h"

#define AT(va) (uint32_t)(va), (uint32_t)((va) >> 32)

static bench_t b;
static emu_sdma_engine_t *engine;
static bench_queue_t *q;

#define put(...) bench_put(q, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* Where this rule is lax. */
static void begin_lax(emu_sdma_rule_t rule, emu_sdma_kind_t kind)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());

    config.lax = rule == EMU_SDMA_RULES ? 0 : EMU_SDMA_RULE_BIT(rule);
    config.peers_refused = rule == EMU_SDMA_PEER;
    bench_begin(&b, &config);
    engine = bench_engine(&b, 1, 4, kind);
    q = bench_queue(&b, 0, engine, 4096);
}

/* Where none is. */
static void begin(void)
{
    begin_lax(EMU_SDMA_RULES, EMU_SDMA_XGMI);
}

/* Expects one report, of this rule. */
static void reported(emu_sdma_rule_t rule)
{
    ck_assert_msg(b.reports[rule] == 1 && b.reported == 1, "not %s but %u reports: %s", emu_sdma_rule_name(rule),
                  b.reported, b.text);
}

static void runs(void)
{
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    ck_assert_msg(b.reported == 0, "%s", b.text);
}

static void dies(emu_sdma_rule_t rule)
{
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_DEAD);
    reported(rule);
    bench_end(&b);
}

/* The bench has no memory for so much: it is the next thing that is wrong. */
static void fill_large_lax(void)
{
    begin_lax(EMU_SDMA_FILL_LARGE, EMU_SDMA_XGMI);
    put(0x8000000b, AT(BENCH_GPU(1)), 0, 0x3fffffff);
    dies(EMU_SDMA_UNMAPPED);
    begin_lax(EMU_SDMA_FILL_LARGE, EMU_SDMA_XGMI);
    put(0x8000000b, AT(BENCH_GPU(1)), 0, 0x40000003);
    dies(EMU_SDMA_TOO_LARGE);
}

/* Also behind a FENCE, where packets are looked at before they are fetched. */
static void align_swap_lax(void)
{
    uint32_t one, other;

    begin_lax(EMU_SDMA_ALIGN_SWAP, EMU_SDMA_XGMI);
    one = *bench_word(&b, BENCH_GPU(1) + 16);
    other = *bench_word(&b, BENCH_GPU(2) + 32);
    put_fence(q, BENCH_HOST, 1);
    put_swap(q, BENCH_GPU(1) + 16, BENCH_GPU(2) + 32, 16);
    runs();
    ck_assert_uint_eq(*bench_word(&b, BENCH_GPU(1) + 16), other);
    ck_assert_uint_eq(*bench_word(&b, BENCH_GPU(2) + 32), one);
    bench_end(&b);
}

static void peer_lax(void)
{
    begin_lax(EMU_SDMA_PEER, EMU_SDMA_HOST_FACING);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 100);
    runs();
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(2)), bench_at(&b, BENCH_GPU(1)), 100);
    bench_end(&b);
}

/* A pair that is swapped twice is still not exchanged. */
static void race_lax(void)
{
    begin_lax(EMU_SDMA_RACE, EMU_SDMA_XGMI);
    put_copy(q, BENCH_GPU(1), BENCH_GPU(3), 65536);
    put_copy(q, BENCH_GPU(1), BENCH_GPU(3), 65536);
    put_copy(q, BENCH_HOST, BENCH_GPU(1) + 65535, 65536);
    runs();
    put_swap(q, BENCH_GPU(1), BENCH_GPU(2), 65536);
    put_swap(q, BENCH_GPU(1), BENCH_GPU(2), 65536);
    bench_ring(q);
    bench_run(engine, 1);
    reported(EMU_SDMA_SWAP_TWICE);
    bench_end(&b);
}

/* What has begun ends; what waits behind a POLL does not begin. */
static void destroy_busy_lax(void)
{
    begin_lax(EMU_SDMA_DESTROY_BUSY, EMU_SDMA_XGMI);
    *bench_word(&b, BENCH_HOST) = *bench_word(&b, BENCH_HOST + 4) = *bench_word(&b, BENCH_HOST + 8) = 0;
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 65536);
    put_fence(q, BENCH_HOST + 4, 1);
    put_poll(q, 3, BENCH_HOST, 1, EMU_SDMA_FOREVER);
    put_fence(q, BENCH_HOST + 8, 1);
    bench_ring(q);
    for (unsigned i = 0; i < 1000 && b.queues[0].rptr < q->written - 16; i++) {
        emu_sdma_engine_step(engine, 1);
    }
    emu_sdma_queue_destroy(q->queue);
    ck_assert_msg(b.reported == 0, "%s", b.text);
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(2)), bench_at(&b, BENCH_GPU(1)), 65536);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 4), 1);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 8), 0);
    bench_end(&b);
}

static const struct {
    emu_sdma_rule_t rule;
    void (*run)(void);
} laxities[] = {
    {EMU_SDMA_FILL_LARGE, fill_large_lax},
    {EMU_SDMA_ALIGN_SWAP, align_swap_lax},
    {EMU_SDMA_PEER, peer_lax},
    {EMU_SDMA_DESTROY_BUSY, destroy_busy_lax},
    {EMU_SDMA_RACE, race_lax},
};

START_TEST(laxity)
{
    laxities[_i].run();
}
END_TEST

/* Each has a test above, and none is lax unasked. */
START_TEST(all_laxities)
{
    uint64_t tested = 0;

    for (unsigned i = 0; i < sizeof(laxities) / sizeof(*laxities); i++) {
        tested |= EMU_SDMA_RULE_BIT(laxities[i].rule);
    }
    ck_assert_uint_eq(tested, EMU_SDMA_MAY_BE_LAX);
    ck_assert_uint_eq(emu_sdma_config(EMU_SDMA_GFX942, 1).lax, 0);
}
END_TEST

/* A queue that is stopped ends what it has begun, begins nothing, and goes on without another doorbell. */
START_TEST(stopped)
{
    begin();
    *bench_word(&b, BENCH_HOST) = *bench_word(&b, BENCH_HOST + 4) = 0;
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 65536);
    put_poll(q, 3, BENCH_HOST, 1, EMU_SDMA_FOREVER);
    put_fence(q, BENCH_HOST + 4, 1);
    bench_ring(q);
    for (unsigned i = 0; i < 1000 && q->rptr < q->written - 16; i++) {
        emu_sdma_engine_step(engine, 1);
    }
    emu_sdma_queue_stop(q->queue, true);
    *bench_word(&b, BENCH_HOST) = 1;
    put_fence(q, BENCH_HOST + 8, 1);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1000), EMU_SDMA_IDLE);
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(2)), bench_at(&b, BENCH_GPU(1)), 65536);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 4), 0);
    ck_assert_uint_eq(q->rptr, q->written - 32);
    emu_sdma_queue_stop(q->queue, false);
    ck_assert_int_eq(bench_run(engine, 1000), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 4), 1);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 8), 1);
    ck_assert_msg(b.reported == 0, "%s", b.text);
    bench_end(&b);
}
END_TEST

/* An idle one too, and whose packets are not looked at is not finished. */
START_TEST(stopped_idle)
{
    begin();
    *bench_word(&b, BENCH_HOST) = 0;
    emu_sdma_queue_stop(q->queue, true);
    put_fence(q, BENCH_HOST, 1);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 10), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST), 0);
    emu_sdma_queue_stop(q->queue, false);
    ck_assert_int_eq(bench_run(engine, 10), EMU_SDMA_IDLE);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST), 1);
    emu_sdma_queue_stop(q->queue, true);
    put_fence(q, BENCH_HOST, 2);
    bench_ring(q);
    bench_run(engine, 10);
    emu_sdma_queue_destroy(q->queue);
    reported(EMU_SDMA_DESTROY_BUSY);
    bench_end(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_sdma_lax");

    unit_loop(suite, laxity, 0, sizeof(laxities) / sizeof(*laxities), 10);
    unit_test(suite, all_laxities, 10);
    unit_test(suite, stopped, 10);
    unit_test(suite, stopped_idle, 10);
    return unit_main(suite);
}
