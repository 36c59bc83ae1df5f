/*
 * What the emulated SDMA engines refuse. Each rule is violated alone, and exactly this rule is reported. Then the
 * queue is dead, and memory is as it was. Races are reported, and the queue goes on.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "../emu/sdma_packet.h"
#include "libunit.h"

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

/* Both halves of an address. */
#define AT(va) LO(va), HI(va)

static bench_t b;
static emu_sdma_engine_t *engine;
static bench_queue_t *q;

static void begin_with(const emu_sdma_config_t *config, emu_sdma_kind_t kind)
{
    bench_begin(&b, config);
    engine = bench_engine(&b, 1, 4, kind);
    q = bench_queue(&b, 0, engine, 4096);
}

static void begin(emu_sdma_gen_t gen)
{
    emu_sdma_config_t config = emu_sdma_config(gen, unit_seed());

    begin_with(&config, EMU_SDMA_XGMI);
}

#define put(...) bench_put(q, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* All memory of GPUs and host. */
static uint64_t digest(void)
{
    uint64_t sum = 1;

    for (unsigned i = 0; i < BENCH_GPUS + 3; i++) {
        for (uint64_t at = 0; at < b.segments[i].bytes; at += 8) {
            uint64_t word;

            memcpy(&word, b.segments[i].host + at, 8);
            sum = (sum ^ word) * 0x100000001b3ull;
        }
    }
    return sum;
}

/* Expects one report, of this rule. */
static void reported(emu_sdma_rule_t rule)
{
    ck_assert_msg(b.reports[rule] == 1 && b.reported == 1, "not %s but %u reports: %s", emu_sdma_rule_name(rule),
                  b.reported, b.text);
    ck_assert_ptr_nonnull(strstr(b.text, emu_sdma_rule_name(rule)));
    ck_assert_ptr_nonnull(strstr(b.text, emu_sdma_rule_text(rule)));
}

/* The program violates the rule, kills its queue and has no other effect. */
static void dies(emu_sdma_rule_t rule)
{
    uint64_t sum;

    put_fence(q, BENCH_HOST + 0x2000, 0x600df00d);
    bench_ring(q);
    sum = digest();
    ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_DEAD);
    reported(rule);
    ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_DEAD);
    ck_assert_int_eq(emu_sdma_engine_step(engine, 100), EMU_SDMA_DEAD);
    ck_assert_uint_eq(b.reported, 1);
    ck_assert_msg(digest() == sum, "memory was written");
    bench_end(&b);
}

/* Packets that are wrong in themselves. */
static const struct {
    emu_sdma_rule_t rule;
    emu_sdma_gen_t gen;
    unsigned faults;
    uint32_t dw[EMU_SDMA_MAX_DWORDS];
    unsigned n;
} packets[] = {
#define GPU1 AT(BENCH_GPU(1))
#define GPU2 AT(BENCH_GPU(2))
#define HOST AT(BENCH_HOST)
    {EMU_SDMA_OPCODE, EMU_SDMA_GFX90A, 0, {3}, 1},
    {EMU_SDMA_OPCODE, EMU_SDMA_GFX942, 0, {0x201, 3, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_OPCODE, EMU_SDMA_GFX942, 0, {0xff}, 1},
    {EMU_SDMA_OPCODE, EMU_SDMA_GFX942, 0, {0x10d, HOST}, 3},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX900, 0, {0x08000001, 3, 0, GPU1, GPU2, HOST}, 9},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX900, 0, {0x901, 63, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX90A, 0, {0x901, 63, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX950, 0, {17, 0, 0, 0, 0}, 5},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX950, 0, {0x205, HOST, 1, 1}, 5},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX950, 0, {0x508, HOST, 1, 1}, 5},
    {EMU_SDMA_GENERATION, EMU_SDMA_GFX950, 0, {0xa01, 3, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {1, 3, 1 << 16, GPU1, GPU2}, 7},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {5 | 3 << 16, HOST, 1}, 4},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {6, 0x10000001}, 2},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {0xf0000008, HOST, 0, 0, 0x0fff0000}, 6},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {10 | 46u << 25, HOST, 1, 0, 0, 0, 0}, 8},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {10 | 47u << 25 | 1 << 16, HOST, 1, 0, 0, 0, 0}, 8},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {0xc000000b, GPU1, 0, 3}, 5},
    {EMU_SDMA_RESERVED, EMU_SDMA_GFX90A, 0, {0x8000000b, GPU1, 0, 5}, 5},
    {EMU_SDMA_ZERO_COUNT, EMU_SDMA_GFX90A, 0, {1, 0xffffffff, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_ZERO_COUNT, EMU_SDMA_GFX942, 0, {0x901, 0xffffffff, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_ZERO_COUNT, EMU_SDMA_GFX90A, 0, {0x8000000b, GPU1, 0, 0xffffffff}, 5},
    {EMU_SDMA_ZERO_COUNT, EMU_SDMA_GFX90A, 0, {0x8000000b, GPU1, 0, 0xfffffffc}, 5},
    {EMU_SDMA_ZERO_COUNT, EMU_SDMA_GFX90A, 0, {9, HOST, 1, 0}, 5},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX900, 0, {1, 0x400000, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX90A, 0, {1, 0x40000000, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX942, 0, {0x08000001, 0x40000000, 0, GPU1, GPU2, HOST}, 9},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX942, 0, {0x901, 0x3fffffff, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX900, 0, {0x8000000b, GPU1, 0, 0x400003}, 5},
    {EMU_SDMA_TOO_LARGE, EMU_SDMA_GFX942, 0, {0x8000000b, GPU1, 0, 0x40000003}, 5},
    {EMU_SDMA_FILL_LARGE, EMU_SDMA_GFX942, 0, {0x8000000b, GPU1, 0, 0x3fffe3}, 5},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {5, AT(BENCH_HOST + 2), 1}, 4},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {0x80000008, AT(BENCH_HOST + 1), 0, 0, 0x0fff0000}, 6},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 2), 1, 4}, 5},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {10 | 47u << 25, AT(BENCH_HOST + 4), 1, 0, 0, 0, 0}, 8},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {10 | 15u << 25, AT(BENCH_HOST + 2), 1, 0, 0, 0, 0}, 8},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {2, AT(BENCH_HOST + 2), 0, 1}, 5},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {0x8000000b, AT(BENCH_HOST + 2), 0, 3}, 5},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {0x4000000b, AT(BENCH_HOST + 1), 0, 3}, 5},
    {EMU_SDMA_ALIGN_ADDRESS, EMU_SDMA_GFX90A, 0, {0x20d, AT(BENCH_HOST + 16)}, 3},
    {EMU_SDMA_ALIGN_BCAST, EMU_SDMA_GFX90A, 0, {0x08000001, 3, 0, GPU1, GPU2, AT(BENCH_HOST + 16)}, 9},
    {EMU_SDMA_ALIGN_BCAST, EMU_SDMA_GFX90A, 0, {0x08000001, 3, 0, GPU1, AT(BENCH_GPU(2) + 1), HOST}, 9},
    {EMU_SDMA_ALIGN_SWAP, EMU_SDMA_GFX942, 0, {0x901, 63, 0, AT(BENCH_GPU(1) + 32), GPU2}, 7},
    {EMU_SDMA_ALIGN_SWAP, EMU_SDMA_GFX942, 0, {0x901, 63, 0, GPU1, AT(BENCH_GPU(2) + 16)}, 7},
    {EMU_SDMA_ALIGN_SWAP, EMU_SDMA_GFX950, 0, {0x901, 95, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_ALIGN_RECT,
     EMU_SDMA_GFX90A,
     0,
     {0x401, AT(BENCH_GPU(1) + 2), 0, 63 << 13, 255, GPU2, 0, 63 << 13, 255, 3, 0},
     13},
    {EMU_SDMA_ALIGN_RECT, EMU_SDMA_GFX90A, 0, {0x401, GPU1, 0, 62 << 13, 255, GPU2, 0, 63 << 13, 255, 3, 0}, 13},
    {EMU_SDMA_ALIGN_RECT, EMU_SDMA_GFX90A, 0, {0x401, GPU1, 0, 63 << 13, 255, GPU2, 0, 63 << 13, 254, 3, 0}, 13},
    {EMU_SDMA_RECT_SHAPE, EMU_SDMA_GFX90A, 0, {0xa0000401, GPU1, 0, 63 << 13, 255, GPU2, 0, 63 << 13, 255, 3, 0}, 13},
    {EMU_SDMA_RECT_SHAPE,
     EMU_SDMA_GFX90A,
     0,
     {0x401, GPU1, 0, 63 << 13, 255, GPU2, 0, 63 << 13, 255, 64 | 1 << 16, 0},
     13},
    {EMU_SDMA_RECT_SHAPE,
     EMU_SDMA_GFX90A,
     0,
     {0x401, GPU1, 0, 63 << 13, 255, GPU2, 0, 63 << 13, 127, 3 | 2 << 16, 1},
     13},
    {EMU_SDMA_UNMAPPED, EMU_SDMA_GFX90A, 1, {1, 3, 0, AT(BENCH_PRIVATE), GPU2}, 7},
    {EMU_SDMA_UNMAPPED, EMU_SDMA_GFX90A, 1, {1, 3, 0, GPU2, AT(0x1234500ull)}, 7},
    {EMU_SDMA_UNMAPPED, EMU_SDMA_GFX90A, 1, {1, BENCH_BYTES, 0, GPU1, GPU2}, 7},
    {EMU_SDMA_UNMAPPED, EMU_SDMA_GFX90A, 1, {5, AT(BENCH_PRIVATE), 1}, 4},
    {EMU_SDMA_UNMAPPED, EMU_SDMA_GFX90A, 1, {0x80000008, AT(BENCH_PRIVATE), 0, 0, 0x0fff0000}, 6},
    {EMU_SDMA_READ_ONLY, EMU_SDMA_GFX90A, 1, {1, 3, 0, GPU1, AT(BENCH_CONST)}, 7},
    {EMU_SDMA_READ_ONLY, EMU_SDMA_GFX942, 1, {0x901, 63, 0, AT(BENCH_CONST), GPU1}, 7},
    {EMU_SDMA_READ_ONLY, EMU_SDMA_GFX90A, 1, {5, AT(BENCH_CONST), 1}, 4},
    {EMU_SDMA_READ_ONLY, EMU_SDMA_GFX90A, 1, {10 | 47u << 25, AT(BENCH_CONST), 1, 0, 0, 0, 0}, 8},
    {EMU_SDMA_OVERLAP, EMU_SDMA_GFX90A, 0, {1, 99, 0, GPU1, AT(BENCH_GPU(1) + 99)}, 7},
    {EMU_SDMA_OVERLAP, EMU_SDMA_GFX90A, 0, {1, 99, 0, AT(BENCH_GPU(1) + 1), GPU1}, 7},
    {EMU_SDMA_OVERLAP, EMU_SDMA_GFX90A, 0, {0x08000001, 99, 0, GPU1, GPU2, AT(BENCH_GPU(2) + 96)}, 9},
    {EMU_SDMA_OVERLAP, EMU_SDMA_GFX90A, 0, {0x08000001, 99, 0, GPU1, GPU2, AT(BENCH_GPU(1) + 64)}, 9},
    {EMU_SDMA_OVERLAP,
     EMU_SDMA_GFX90A,
     0,
     {0x401, GPU1, 0, 63 << 13, 4095, GPU1, 4, 63 << 13, 4095, 4 | 3 << 16, 0},
     13},
    {EMU_SDMA_SWAP_OVERLAP, EMU_SDMA_GFX942, 0, {0x901, 127, 0, GPU1, AT(BENCH_GPU(1) + 64)}, 7},
    {EMU_SDMA_COND_VALUE, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1000), 3, 4}, 5},
    {EMU_SDMA_COND_VALUE, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1004), 0, 4}, 5},
    {EMU_SDMA_COND_CROSS, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1004), 1, 3}, 5},
    {EMU_SDMA_COND_CROSS, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1008), 1, 3}, 5},
    {EMU_SDMA_COND_CROSS, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1004), 1, 5}, 5},
    {EMU_SDMA_COND_CROSS, EMU_SDMA_GFX90A, 0, {9, AT(BENCH_HOST + 0x1004), 1, 0x3fff}, 5},
    {EMU_SDMA_POLL_REGISTER, EMU_SDMA_GFX90A, 0, {8 | 3 << 28, 0x1234, 0, 1, 1, 0x0fff0004}, 6},
    {EMU_SDMA_POLL_RETRIES, EMU_SDMA_GFX90A, 0, {0x80000008 | 3 << 28, AT(BENCH_HOST + 0x1000), 1, 0xff, 5 << 16}, 6},
    {EMU_SDMA_POLL_SIGN,
     EMU_SDMA_GFX90A,
     0,
     {0x80000008 | 5u << 28, AT(BENCH_HOST + 0x100c), 1, 0xffffffff, 0x0fff0000},
     6},
};

START_TEST(packet)
{
    begin(packets[_i].gen);
    *bench_word(&b, BENCH_HOST + 0x1000) = 7;
    *bench_word(&b, BENCH_HOST + 0x1004) = 0;
    *bench_word(&b, BENCH_HOST + 0x1008) = 1;
    *bench_word(&b, BENCH_HOST + 0x100c) = 0x80000000;
    bench_put(q, packets[_i].dw, packets[_i].n);
    dies(packets[_i].rule);
    ck_assert_uint_eq(b.faults, packets[_i].faults);
}
END_TEST

/* What else can be wrong, rule by rule. */

static void shape(uint64_t va, uint64_t bytes)
{
    emu_sdma_ring_t ring = {1, va, bytes, &q->rptr, &q->wptr, &q->doorbell, false};

    ck_assert_ptr_null(emu_sdma_queue_create(engine, &ring));
    reported(EMU_SDMA_RING_SHAPE);
    b.reported = b.reports[EMU_SDMA_RING_SHAPE] = 0;
}

static void ring_shape(void)
{
    begin(EMU_SDMA_GFX90A);
    shape(BENCH_HOST, 2048);
    shape(BENCH_HOST, 12288);
    shape(BENCH_HOST + 128, 8192);
    shape(BENCH_HOST + BENCH_BYTES - 4096, 8192);
    bench_end(&b);
}

/* A full ring cannot be told from an empty one. */
static void ring_overrun(void)
{
    begin(EMU_SDMA_GFX90A);
    memset(q->ring, 0, q->bytes);
    q->wptr = q->doorbell = q->bytes - 4;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    q->wptr = q->doorbell += q->bytes;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_RING_OVERRUN);
    bench_end(&b);
}

static void wptr_backward(void)
{
    begin(EMU_SDMA_GFX90A);
    put(0, 0, 0, 0);
    bench_ring(q);
    bench_run(engine, 1);
    q->wptr = 8;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_WPTR_BACKWARD);
    bench_end(&b);
}

static void wptr_align(void)
{
    begin(EMU_SDMA_GFX90A);
    put(0);
    q->written += 2;
    q->wptr = q->doorbell = q->written;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_WPTR_ALIGN);
    bench_end(&b);
}

/* The doorbell is rung before the write pointer is stored, or in dwords, or not at all. */
static void doorbell(void)
{
    for (unsigned i = 0; i < 3; i++) {
        begin(EMU_SDMA_GFX90A);
        put(0, 0, 0, 0);
        q->wptr = i == 0 ? 0 : q->written;
        q->doorbell = i == 0 ? q->written : i == 1 ? q->written / 4 : 0;
        emu_sdma_engine_step(engine, 100);
        ck_assert_uint_eq(b.reported, i == 0);
        b.now += 2000000000; /* the process was stopped */
        emu_sdma_engine_step(engine, 1);
        ck_assert_uint_eq(b.reported, i == 0);
        b.tick = 500000;
        for (unsigned looks = 0; looks < 2100; looks++) {
            emu_sdma_engine_step(engine, 1);
        }
        ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_DEAD);
        reported(EMU_SDMA_DOORBELL);
        bench_end(&b);
    }
}

/* A packet of seven dwords, six dwords before the end of the ring. */
static void straddle(void)
{
    uint32_t dw[] = {1, 3, 0, AT(BENCH_GPU(1)), AT(BENCH_GPU(2))};

    begin(EMU_SDMA_GFX90A);
    memset(q->ring, 0, q->bytes);
    q->written = q->bytes - 24;
    bench_ring(q);
    bench_run(engine, 1);
    memcpy(q->ring + q->bytes - 24, dw, 24);
    memcpy(q->ring, dw + 6, 4);
    q->written += 28;
    dies(EMU_SDMA_STRADDLE);
}

static void truncated(void)
{
    begin(EMU_SDMA_GFX90A);
    put(1, 3, 0, AT(BENCH_GPU(1)), AT(BENCH_GPU(2)));
    q->wptr = q->doorbell = 24;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_TRUNCATED);
    bench_end(&b);
}

static void peer(void)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX90A, unit_seed());

    config.peers_refused = true;
    begin_with(&config, EMU_SDMA_XGMI);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 100);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    bench_end(&b);
    begin_with(&config, EMU_SDMA_HOST_FACING);
    put_copy(q, BENCH_HOST, BENCH_GPU(1), 100);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 100);
    dies(EMU_SDMA_PEER);
}

/* Two queues on two engines. One operation begins on each. Then both are carried out. */
static void both(emu_sdma_rule_t rule, void (*first)(bench_queue_t *), void (*second)(bench_queue_t *))
{
    emu_sdma_engine_t *other;
    bench_queue_t *r;

    begin(EMU_SDMA_GFX942);
    other = bench_engine(&b, 2, 5, EMU_SDMA_XGMI);
    r = bench_queue(&b, 1, other, 4096);
    first(q);
    second(r);
    bench_ring(q);
    bench_ring(r);
    emu_sdma_engine_step(engine, 8);
    bench_run(other, 1);
    bench_run(engine, 1);
    reported(rule);
    ck_assert_int_eq(emu_sdma_queue_state(q->queue), EMU_SDMA_IDLE);
    bench_end(&b);
}

static void one_way(bench_queue_t *queue)
{
    put_swap(queue, BENCH_GPU(1), BENCH_GPU(2), 65536);
}

static void other_way(bench_queue_t *queue)
{
    put_swap(queue, BENCH_GPU(2), BENCH_GPU(1), 65536);
}

static void reader(bench_queue_t *queue)
{
    put_copy(queue, BENCH_HOST, BENCH_GPU(1) + 65535, 65536);
}

static void writer(bench_queue_t *queue)
{
    put_copy(queue, BENCH_GPU(1), BENCH_GPU(3), 65536);
}

static void flag(bench_queue_t *queue)
{
    put_fence(queue, BENCH_GPU(1) + 4096, 1);
}

static void swap_twice(void)
{
    both(EMU_SDMA_SWAP_TWICE, one_way, other_way);
}

/* Between queues, and inside a queue, however long ago the first operation ended. */
static void race(void)
{
    both(EMU_SDMA_RACE, writer, writer);
    both(EMU_SDMA_RACE, reader, writer);
    both(EMU_SDMA_RACE, writer, reader);
    both(EMU_SDMA_RACE, one_way, reader);
    both(EMU_SDMA_RACE, writer, flag);
    begin(EMU_SDMA_GFX90A);
    writer(q);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    put_poll(q, 0, BENCH_HOST, 0, EMU_SDMA_FOREVER);
    reader(q);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    reported(EMU_SDMA_RACE);
    bench_end(&b);
}

/* A POLL whose word gets its value behind a FENCE is in order with what is before that; one that could have gone on before is not,
 * whenever it is looked at. */
static void race_behind_a_gate(void)
{
    const uint64_t fenced = BENCH_HOST + 0x3000, gate = BENCH_HOST + 0x3040;

    for (int late = 0; late < 2; late++) {
        begin(EMU_SDMA_GFX942);
        *bench_word(&b, fenced) = 0;
        *bench_word(&b, gate) = !late;
        writer(q);
        put_fence(q, fenced, 1);
        put_poll(q, 3, gate, 1, EMU_SDMA_FOREVER);
        writer(q);
        bench_ring(q);
        bench_run(engine, 1000);
        ck_assert_uint_eq(*bench_word(&b, fenced), 1);
        *bench_word(&b, gate) = 1;
        ck_assert_int_eq(bench_run(engine, 1000), EMU_SDMA_IDLE);
        ck_assert_uint_eq(b.reports[EMU_SDMA_RACE], !late);
        bench_end(&b);
    }
}

static void cond_over_the_end(void)
{
    begin(EMU_SDMA_GFX90A);
    memset(q->ring, 0, q->bytes);
    q->written = q->bytes - 32;
    bench_ring(q);
    bench_run(engine, 1);
    *bench_word(&b, BENCH_HOST) = 0;
    put_cond(q, BENCH_HOST, 4);
    put(0, 0, 0, 0);
    dies(EMU_SDMA_COND_CROSS);
}

static void destroy_busy(void)
{
    begin(EMU_SDMA_GFX90A);
    *bench_word(&b, BENCH_HOST) = 0;
    put_poll(q, 3, BENCH_HOST, 1, EMU_SDMA_FOREVER);
    bench_ring(q);
    bench_run(engine, 10);
    emu_sdma_queue_destroy(q->queue);
    reported(EMU_SDMA_DESTROY_BUSY);
    bench_end(&b);
}

/* The third packet faults: nothing of it is done, and what came before it may be done. */
static void injected(void)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX90A, unit_seed());

    config.fault_packet = 3;
    begin_with(&config, EMU_SDMA_XGMI);
    put_fence(q, BENCH_HOST, 11);
    put_fence(q, BENCH_HOST + 4, 12);
    *bench_word(&b, BENCH_HOST + 8) = 0;
    put_fence(q, BENCH_HOST + 8, 13);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_INJECTED);
    ck_assert_uint_eq(b.faults, 1);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 4), 12);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 8), 0);
    bench_end(&b);
}

/* Memory is freed under a copy. */
static void unmapped_later(void)
{
    begin(EMU_SDMA_GFX90A);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 65536);
    bench_ring(q);
    emu_sdma_engine_step(engine, 10);
    b.segments[2].gpus = 0;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_UNMAPPED);
    ck_assert_uint_eq(b.faults, 1);
    bench_end(&b);
}

/* A ring that is freed too early. */
static void ring_unmapped(void)
{
    begin(EMU_SDMA_GFX90A);
    put_fence(q, BENCH_HOST, 1);
    bench_ring(q);
    b.segments[b.nsegments - 1].gpus = 0;
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_DEAD);
    reported(EMU_SDMA_UNMAPPED);
    bench_end(&b);
}

static const struct {
    emu_sdma_rule_t rule;
    void (*run)(void);
} programs[] = {
    {EMU_SDMA_RING_SHAPE, ring_shape},       {EMU_SDMA_RING_OVERRUN, ring_overrun},
    {EMU_SDMA_WPTR_BACKWARD, wptr_backward}, {EMU_SDMA_WPTR_ALIGN, wptr_align},
    {EMU_SDMA_DOORBELL, doorbell},           {EMU_SDMA_STRADDLE, straddle},
    {EMU_SDMA_TRUNCATED, truncated},         {EMU_SDMA_PEER, peer},
    {EMU_SDMA_SWAP_TWICE, swap_twice},       {EMU_SDMA_RACE, race},
    {EMU_SDMA_RACE, race_behind_a_gate},     {EMU_SDMA_DESTROY_BUSY, destroy_busy},
    {EMU_SDMA_INJECTED, injected},           {EMU_SDMA_UNMAPPED, unmapped_later},
    {EMU_SDMA_UNMAPPED, ring_unmapped},      {EMU_SDMA_COND_CROSS, cond_over_the_end},
};

#define NPACKETS  (sizeof(packets) / sizeof(*packets))
#define NPROGRAMS (sizeof(programs) / sizeof(*programs))

START_TEST(program)
{
    programs[_i].run();
}
END_TEST

/* Some test above violates each rule, and each rule has a name of its own. */
START_TEST(all_rules)
{
    for (unsigned rule = 0; rule < EMU_SDMA_RULES; rule++) {
        unsigned found = 0;

        for (unsigned i = 0; i < NPACKETS; i++) {
            found += packets[i].rule == rule;
        }
        for (unsigned i = 0; i < NPROGRAMS; i++) {
            found += programs[i].rule == rule;
        }
        ck_assert_msg(found, "nothing breaks rule %u", rule);
        ck_assert_ptr_nonnull(emu_sdma_rule_name(rule));
        ck_assert_ptr_nonnull(emu_sdma_rule_text(rule));
        for (unsigned i = 0; i < rule; i++) {
            ck_assert_str_ne(emu_sdma_rule_name(i), emu_sdma_rule_name(rule));
        }
    }
}
END_TEST

/* Which bits of which packet have a meaning. Every other bit is refused as reserved, and none of these bits is. */
static const struct {
    uint32_t dw[EMU_SDMA_MAX_DWORDS];
    unsigned n;
    uint32_t used[EMU_SDMA_MAX_DWORDS];
} layouts[] = {
#define F 0xffffffff
    {{0}, 1, {0x3fff0000}},
    {{1}, 7, {1 << 27, F, 0, F, F, F, F}},
    {{0x08000001}, 9, {1 << 27, F, 0, F, F, F, F, F, F}},
    {{0x901, 63}, 7, {0, F, 0, F, F, F, F}},
    {{0x40000401},
     13,
     {7u << 29, F, F, 0x3fff3fff, 0xffffe000 | 0x7ff, 0xfffffff, F, F, 0x3fff3fff, 0xffffe000 | 0x7ff, 0xfffffff,
      0x3fff3fff, 0x7ff}},
    {{2}, 4, {0, F, F, 0xfffff}},
    {{5}, 4, {0, F, F, F}},
    {{6}, 2, {0, 0xfffffff}},
    {{0x80000008}, 6, {0xf0000000, F, F, F, F, 0x0fffffff}},
    {{9, 0, 0, 1, 1}, 5, {0, F, F, F, 0x3fff}},
    {{10 | 40u << 25}, 8, {0xfe010000, F, F, F, F, F, F, 0x1fff}},
    {{11 | 2u << 30}, 5, {0xc0000000, F, F, F, F}},
    {{0x20d}, 3, {0, F, F}},
#undef F
};

START_TEST(bits)
{
    for (unsigned bit = 16; bit < 32 * layouts[_i].n; bit++) {
        uint32_t dw[EMU_SDMA_MAX_DWORDS] = {0}, flip = 1u << bit % 32;
        bool used = layouts[_i].used[bit / 32] & flip;
        emu_sdma_problem_t problem = {EMU_SDMA_RULES, ""};
        emu_sdma_packet_t p;

        memcpy(dw, layouts[_i].dw, sizeof(layouts[_i].dw));
        ck_assert(emu_sdma_packet_decode(EMU_SDMA_GFX942, dw, &p, &problem));
        ck_assert_uint_eq(emu_sdma_packet_length(EMU_SDMA_GFX942, dw, layouts[_i].n, &problem), p.dwords);
        dw[bit / 32] ^= flip;
        if (!used) {
            ck_assert_msg(!emu_sdma_packet_decode(EMU_SDMA_GFX942, dw, &p, &problem), "dword %u bit %u", bit / 32,
                          bit % 32);
            ck_assert_int_eq(problem.rule, EMU_SDMA_RESERVED);
        } else if (!emu_sdma_packet_decode(EMU_SDMA_GFX942, dw, &p, &problem)) {
            unsigned opcode = dw[0] & 0xff;

            /* Operations of ATOMIC and sizes of FILL that do not exist, and a FILL of half an element. */
            ck_assert_msg(problem.rule != EMU_SDMA_RESERVED || (opcode == 10 && bit < 32) ||
                              (opcode == 11 && (bit < 32 || bit / 32 == 4)),
                          "dword %u bit %u: %s", bit / 32, bit % 32, problem.text);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_sdma_rules");

    unit_loop(suite, packet, 0, NPACKETS, 10);
    unit_loop(suite, program, 0, NPROGRAMS, 10);
    unit_test(suite, all_rules, 10);
    unit_loop(suite, bits, 0, sizeof(layouts) / sizeof(*layouts), 10);
    return unit_main(suite);
}
