/*
 * The emulated SDMA engines, packet by packet: each does what its layout says and changes nothing else. The dwords
 * here are written by hand from the packet layouts.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "../emu/sdma_packet.h"
#include "libunit.h"

static bench_t b;
static emu_sdma_engine_t *engine;
static bench_queue_t *q;
static char *before[BENCH_GPUS + 1]; /* the memory as it was, and as it must become */

static uint64_t base(unsigned i)
{
    return i < BENCH_GPUS ? BENCH_GPU(i) : BENCH_HOST;
}

static void begin_with(const emu_sdma_config_t *config)
{
    bench_begin(&b, config);
    engine = bench_engine(&b, 1, 4, EMU_SDMA_XGMI);
    q = bench_queue(&b, 0, engine, 4096);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        before[i] = malloc(BENCH_BYTES);
        ck_assert_ptr_nonnull(before[i]);
        memcpy(before[i], bench_at(&b, base(i)), BENCH_BYTES);
    }
}

static void begin(emu_sdma_gen_t gen, uint64_t seed)
{
    emu_sdma_config_t config = emu_sdma_config(gen, seed);

    begin_with(&config);
}

/* The place of an address in the expected memory. */
static char *expect(uint64_t va)
{
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        if (va >= base(i) && va < base(i) + BENCH_BYTES) {
            return before[i] + (va - base(i));
        }
    }
    ck_abort_msg("no such memory");
    return NULL;
}

static void finish(void)
{
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 100), EMU_SDMA_IDLE); /* a POLL may see an old value a few times */
    ck_assert_msg(b.reported == 0, "%s", b.text);
    ck_assert_uint_eq(q->rptr, q->wptr);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        ck_assert_msg(memcmp(before[i], bench_at(&b, base(i)), BENCH_BYTES) == 0, "memory %u differs", i);
        free(before[i]);
    }
    bench_end(&b);
}

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

#define put(...) bench_put(q, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* Sizes around those of the pieces of a copy; any alignment. */
START_TEST(copy)
{
    static const uint32_t sizes[] = {1, 3, 4, 64, 255, 4096, 16384, 16385, 100001};
    uint32_t bytes = sizes[_i];
    uint64_t src = BENCH_GPU(1) + 7, dst = BENCH_GPU(3) + 1000001 % 9;

    begin(EMU_SDMA_GFX90A, unit_seed() + _i);
    put(0x00000001, bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst));
    memcpy(expect(dst), expect(src), bytes);
    finish();
}
END_TEST

START_TEST(broadcast)
{
    uint64_t src = BENCH_HOST + 5, dst = BENCH_GPU(0) + 33, dst2 = BENCH_GPU(2) + 65;

    begin(EMU_SDMA_GFX942, unit_seed() + _i);
    put(0x08000001, 70000 - 1, 0, LO(src), HI(src), LO(dst), HI(dst), LO(dst2), HI(dst2));
    memcpy(expect(dst), expect(src), 70000);
    memcpy(expect(dst2), expect(src), 70000);
    finish();
}
END_TEST

START_TEST(swap)
{
    uint64_t x = BENCH_GPU(1) + 64, y = BENCH_GPU(2) + 0x1000;
    uint32_t bytes = _i ? 64u * (unsigned)_i * (unsigned)_i : 64;
    char *kept = malloc(bytes);

    begin(_i & 1 ? EMU_SDMA_GFX942 : EMU_SDMA_GFX950, unit_seed() + _i);
    put(0x00000901, bytes - 1, 0, LO(x), HI(x), LO(y), HI(y));
    memcpy(kept, expect(x), bytes);
    memcpy(expect(x), expect(y), bytes);
    memcpy(expect(y), kept, bytes);
    free(kept);
    finish();
}
END_TEST

/* Two slices of five rows of three elements. Both sides have offsets and pitches of their own. */
START_TEST(rect)
{
    unsigned log2 = _i, x = 2, y = 3, z = 1, dx = 5, dy = 1, dz = 2;
    uint64_t pitch = 24, slice = 24 * 16, dpitch = 40, dslice = 40 * 8 + 8;

    begin(EMU_SDMA_GFX90A, unit_seed() + _i);
    put(0x00000401 | log2 << 29, LO(BENCH_GPU(1)), HI(BENCH_GPU(1)), x | y << 16, z | (uint32_t)(pitch - 1) << 13,
        (uint32_t)slice - 1, LO(BENCH_GPU(2)), HI(BENCH_GPU(2)), dx | dy << 16, dz | (uint32_t)(dpitch - 1) << 13,
        (uint32_t)dslice - 1, 2 | 4 << 16, 1);
    for (unsigned s = 0; s < 2; s++) {
        for (unsigned r = 0; r < 5; r++) {
            memcpy(expect(BENCH_GPU(2)) + ((dx + (dy + r) * dpitch + (dz + s) * dslice) << log2),
                   expect(BENCH_GPU(1)) + ((x + (y + r) * pitch + (z + s) * slice) << log2), 3u << log2);
        }
    }
    finish();
}
END_TEST

/* Columns of one matrix, by packets without an order, as of two queues: they share no byte. */
START_TEST(rect_columns)
{
    begin(EMU_SDMA_GFX90A, unit_seed() + _i);
    for (unsigned c = 0; c < 4; c++) {
        put(0x40000401, LO(BENCH_GPU(1)), HI(BENCH_GPU(1)), c * 8, 31 << 13, 32 * 64 - 1, LO(BENCH_HOST),
            HI(BENCH_HOST), (3 - c) * 8, 31 << 13, 32 * 64 - 1, 7 | 63 << 16, 0);
    }
    for (unsigned r = 0; r < 64; r++) {
        for (unsigned c = 0; c < 4; c++) {
            memcpy(expect(BENCH_HOST) + r * 128 + (3 - c) * 32, expect(BENCH_GPU(1)) + r * 128 + c * 32, 32);
        }
    }
    finish();
}
END_TEST

/* The largest write that fits into the ring, and one word. The ring is overwritten at once. */
START_TEST(write)
{
    uint32_t dw[4 + 900], n = _i ? 900 : 1;
    uint64_t dst = BENCH_GPU(1) + 12;

    begin(EMU_SDMA_GFX90A, unit_seed() + _i);
    dw[0] = 2;
    dw[1] = LO(dst);
    dw[2] = HI(dst);
    dw[3] = n - 1;
    for (uint32_t i = 0; i < n; i++) {
        dw[4 + i] = i * 2654435761u;
    }
    bench_put(q, dw, 4 + n);
    memcpy(expect(dst), dw + 4, 4 * n);
    bench_ring(q);
    while (q->rptr != q->wptr) {
        emu_sdma_engine_step(engine, 1);
    }
    memset(q->ring, 0xff, q->bytes);
    finish();
}
END_TEST

START_TEST(fill)
{
    uint64_t dst = BENCH_GPU(1) + 8;

    begin(EMU_SDMA_GFX900, unit_seed());
    put(0x8000000b, LO(dst), HI(dst), 0x12345678, 40000 - 1);       /* bytes - 1 */
    put(0x8000000b, LO(dst + 50000), HI(dst), 0xabcdef01, 400 - 4); /* bytes - element */
    put(0x4000000b, LO(dst + 60002), HI(dst), 0x9876, 6 - 1);       /* 16 bits */
    put(0x0000000b, LO(dst + 70001), HI(dst), 0x42, 3 - 1);         /* bytes */
    for (unsigned i = 0; i < 40000 / 4; i++) {
        memcpy(expect(dst) + 4 * i, "\x78\x56\x34\x12", 4);
    }
    for (unsigned i = 0; i < 100; i++) {
        memcpy(expect(dst + 50000) + 4 * i, "\x01\xef\xcd\xab", 4);
    }
    memcpy(expect(dst + 60002), "\x76\x98\x76\x98\x76\x98", 6);
    memcpy(expect(dst + 70001), "BBB", 3);
    finish();
}
END_TEST

START_TEST(fence_and_trap)
{
    uint32_t data = 0xfeedbeef;

    begin(EMU_SDMA_GFX90A, unit_seed());
    put(5, LO(BENCH_HOST + 44), HI(BENCH_HOST), data);
    put(6, 0x0abcdef1);
    memcpy(expect(BENCH_HOST + 44), &data, 4);
    finish();
    ck_assert_uint_eq(b.traps, 1);
    ck_assert_uint_eq(b.trap, 0x0abcdef1);
}
END_TEST

/* A nop with a count of dwords, whose content has no meaning; zero dwords, one by one. */
START_TEST(nops)
{
    begin(EMU_SDMA_GFX90A, unit_seed());
    put(3 << 16, 0xffffffff, 1, 0x12345678);
    put(0, 0, 0);
    put(0x3f0 << 16);
    q->written += 4 * 0x3f0; /* whatever is there */
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    while (q->written % q->bytes) {
        put(0);
    }
    put(5, LO(BENCH_HOST), HI(BENCH_HOST), 1); /* behind the end */
    *(uint32_t *)expect(BENCH_HOST) = 1;
    finish();
    ck_assert_uint_eq(b.reported, 0);
}
END_TEST

START_TEST(atomics)
{
    static const struct {
        unsigned code, width;
        uint64_t operand, comparand, old, result;
    } cases[] = {
        {7, 4, 0x1122334455667788, 0, 9, 0x55667788},
        {8, 4, 7, 9, 9, 7},
        {8, 4, 7, 8, 9, 9},
        {15, 4, 0xffffffff, 0, 0, 0xffffffff},
        {15, 4, 1, 0, 0xffffffff, 0},
        {16, 4, 1, 0, 0, 0xffffffff},
        {39, 8, 0x1122334455667788, 0, 9, 0x1122334455667788},
        {40, 8, 7, 0x100000009, 0x100000009, 7},
        {40, 8, 7, 9, 0x100000009, 0x100000009},
        {47, 8, 0xffffffffffffffff, 0, 1, 0},
        {47, 8, 1, 0, 0xffffffff, 0x100000000},
        {48, 8, 1, 0, 0, 0xffffffffffffffff},
    };
    uint64_t va = BENCH_HOST + 64;

    begin(EMU_SDMA_GFX90A, unit_seed());
    memcpy(bench_at(&b, va), &cases[_i].old, 8);
    memcpy(expect(va), &cases[_i].old, 8);
    put(10 | cases[_i].code << 25, LO(va), HI(va), LO(cases[_i].operand), HI(cases[_i].operand),
        LO(cases[_i].comparand), HI(cases[_i].comparand), 0);
    memcpy(expect(va), &cases[_i].result, cases[_i].width);
    finish();
}
END_TEST

/* A loop of compare-and-swap waits for its value. */
START_TEST(atomic_loop)
{
    uint64_t va = BENCH_HOST + 64, value = 3;

    begin(EMU_SDMA_GFX90A, unit_seed());
    memcpy(bench_at(&b, va), &value, 8);
    put(10 | 40u << 25 | 1 << 16, LO(va), HI(va), 77, 0, 4, 0, 0x1fff);
    put(5, LO(va + 8), HI(va), 1);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 5000), EMU_SDMA_BLOCKED);
    ck_assert_uint_eq(*bench_word(&b, va), 3);
    ck_assert_uint_eq(emu_sdma_queue_stats(q->queue)->fences, 0);
    *bench_word(&b, va) = 4;
    ck_assert_int_eq(bench_run(engine, 5000), EMU_SDMA_IDLE);
    value = 77;
    memcpy(expect(va), &value, 8);
    value = 1;
    memcpy(expect(va + 8), &value, 4);
    ck_assert_uint_gt(emu_sdma_queue_stats(q->queue)->blocked_ns, 0);
    finish();
}
END_TEST

START_TEST(timestamp)
{
    uint64_t value;

    begin(EMU_SDMA_GFX90A, unit_seed());
    put(0x20d, LO(BENCH_HOST + 32), HI(BENCH_HOST));
    b.now = 5000000000;
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 1), EMU_SDMA_IDLE);
    memcpy(&value, bench_at(&b, BENCH_HOST + 32), 8);
    ck_assert_uint_ge(value, 500000000);
    ck_assert_uint_lt(value, 500000100);
    memcpy(expect(BENCH_HOST + 32), &value, 8);
    finish();
}
END_TEST

START_TEST(hdp_flush)
{
    begin(EMU_SDMA_GFX90A, unit_seed());
    put(8, 0, 0x80000000, 0, 0, 0);
    put(8 | 1 << 26 | 3 << 28, 0x1234, 0x1238, 1, 1, 0x0fff000a);
    finish();
    ck_assert_uint_eq(b.reported, 0);
}
END_TEST

/* Every comparison, below, at and above its reference, through the mask. */
START_TEST(polls)
{
    static const bool passes[7][3] = {{1, 1, 1}, {1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {1, 0, 1}, {0, 1, 1}, {0, 0, 1}};
    unsigned func = _i / 3, value = 4 + _i % 3;

    begin(EMU_SDMA_GFX90A, unit_seed());
    *bench_word(&b, BENCH_HOST + 4) = 0xab00 | value;
    *(uint32_t *)expect(BENCH_HOST + 4) = 0xab00 | value;
    put(0x80000008 | func << 28, LO(BENCH_HOST + 4), HI(BENCH_HOST), 5, 0xff, 0x0fff0004);
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 100), passes[func][value - 4] ? EMU_SDMA_IDLE : EMU_SDMA_BLOCKED);
    ck_assert_uint_eq(emu_sdma_queue_stats(q->queue)->polls, passes[func][value - 4]);
    if (!passes[func][value - 4]) {
        uint32_t right = func == 1 || func == 2 ? 4 : func == 3 ? 5 : 6;

        *bench_word(&b, BENCH_HOST + 4) = right;
        *(uint32_t *)expect(BENCH_HOST + 4) = right;
    }
    finish();
}
END_TEST

/* A machine on which a POLL may end although its word is wrong: it does so at some time, and not every time. */
START_TEST(early_polls)
{
    enum { SEEDS = 100 };
    unsigned at_once = 0, most = 0;

    for (unsigned seed = 0; seed < SEEDS; seed++) {
        emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX900, unit_seed() + seed);
        unsigned looks;

        config.early_polls = 4;
        begin_with(&config);
        *bench_word(&b, BENCH_HOST) = *(uint32_t *)expect(BENCH_HOST) = 1;
        put(0x80000008 | 3 << 28, LO(BENCH_HOST), HI(BENCH_HOST), 2, 0xffffffff, 0x0fff0004);
        bench_ring(q);
        ck_assert_int_eq(bench_run(engine, 5000), EMU_SDMA_IDLE);
        looks = (unsigned)emu_sdma_queue_stats(q->queue)->looks;
        at_once += looks == 1;
        most = looks > most ? looks : most;
        finish();
    }
    ck_assert_uint_gt(at_once, SEEDS / 10);
    ck_assert_uint_lt(at_once, SEEDS / 2);
    ck_assert_uint_gt(most, 4);
}
END_TEST

/* Polls are not closer than the interval says. A bounded POLL that is satisfied in time does not fail. */
START_TEST(poll_interval)
{
    uint64_t start;

    begin(EMU_SDMA_GFX90A, unit_seed());
    *bench_word(&b, BENCH_HOST) = *(uint32_t *)expect(BENCH_HOST) = 1;
    put(0x80000008 | 3 << 28, LO(BENCH_HOST), HI(BENCH_HOST), 2, 0xffffffff, 0x00640100);
    bench_ring(q);
    start = b.now;
    while (emu_sdma_queue_stats(q->queue)->looks < 50) {
        emu_sdma_engine_step(engine, 1);
    }
    ck_assert_uint_ge(b.now - start, 49 * 0x100 * 10);
    *bench_word(&b, BENCH_HOST) = *(uint32_t *)expect(BENCH_HOST) = 2;
    ck_assert_int_eq(bench_run(engine, 1000), EMU_SDMA_IDLE);
    finish();
}
END_TEST

/* With reference 0, exactly its dwords are skipped; with the reference, none. */
START_TEST(conditional)
{
    begin(EMU_SDMA_GFX90A, unit_seed() + _i);
    *bench_word(&b, BENCH_HOST) = *(uint32_t *)expect(BENCH_HOST) = _i;
    put(9, LO(BENCH_HOST), HI(BENCH_HOST), 1, 7 + 4);
    put(1, 99, 0, LO(BENCH_GPU(1)), HI(BENCH_GPU(1)), LO(BENCH_GPU(2)), HI(BENCH_GPU(2)));
    put(5, LO(BENCH_HOST + 8), HI(BENCH_HOST), 1);
    put(5, LO(BENCH_HOST + 12), HI(BENCH_HOST), 2);
    if (_i) {
        memcpy(expect(BENCH_GPU(2)), expect(BENCH_GPU(1)), 100);
        *(uint32_t *)expect(BENCH_HOST + 8) = 1;
    }
    *(uint32_t *)expect(BENCH_HOST + 12) = 2;
    bench_ring(q);
    bench_run(engine, 1);
    ck_assert_uint_eq(emu_sdma_queue_stats(q->queue)->skipped, _i ? 0 : 11);
    ck_assert_uint_eq(emu_sdma_queue_stats(q->queue)->packets[EMU_SDMA_COPY], _i);
    finish();
}
END_TEST

/* The statistics, as lines. */
START_TEST(statistics)
{
    char text[2000], *at = text;
    FILE *to = fmemopen(text, sizeof(text), "w");

    begin(EMU_SDMA_GFX942, unit_seed());
    for (int i = 0; i < 3; i++) {
        put_copy(q, BENCH_GPU(3) + 4096 * i, BENCH_GPU(1), 4096);
    }
    put_broadcast(q, BENCH_GPU(0), BENCH_HOST, BENCH_GPU(1), 96);
    put_swap(q, BENCH_GPU(0) + 4096, BENCH_GPU(2), 128);
    put_fence(q, BENCH_HOST + 4096, 1);
    bench_ring(q);
    bench_run(engine, 1);
    put_trap(q, 1);
    bench_ring(q);
    bench_run(engine, 1);
    emu_sdma_node_print(b.node, to);
    fclose(to);
    ck_assert_str_eq(at, "sdma gpu 1 engine 4 queue 0 packet copy 3\n"
                         "sdma gpu 1 engine 4 queue 0 packet broadcast 1\n"
                         "sdma gpu 1 engine 4 queue 0 packet swap 1\n"
                         "sdma gpu 1 engine 4 queue 0 packet fence 1\n"
                         "sdma gpu 1 engine 4 queue 0 packet trap 1\n"
                         "sdma gpu 1 engine 4 queue 0 moved host bytes 96 packets 1\n"
                         "sdma gpu 1 engine 4 queue 0 moved gpu0 bytes 224 packets 2\n"
                         "sdma gpu 1 engine 4 queue 0 moved gpu2 bytes 128 packets 1\n"
                         "sdma gpu 1 engine 4 queue 0 moved gpu3 bytes 12288 packets 3\n"
                         "sdma gpu 1 engine 4 queue 0 doorbells 2 fences 1 polls 0 skipped 0 blocked_us 0\n");
    bench_end(&b);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        free(before[i]);
    }
}
END_TEST

/* ---- packets that are asked to go wrong, by kind ---- */

static void end_with(emu_sdma_state_t state)
{
    bench_ring(q);
    ck_assert_int_eq(bench_run(engine, 100), (int)state);
}

static void done(void)
{
    bench_end(&b);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        free(before[i]);
    }
}

/* The packet and those after it are not executed. A queue on the same engine gets its turn. */
START_TEST(hangs)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());

    config.hang_kinds = 1u << EMU_SDMA_SWAP;
    begin_with(&config);
    *bench_word(&b, BENCH_HOST) = 0;
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 64);
    put_swap(q, BENCH_GPU(3), BENCH_GPU(2), 64);
    put_fence(q, BENCH_HOST, 1);
    end_with(EMU_SDMA_BLOCKED);
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(2)), expect(BENCH_GPU(1)), 64);
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(3)), expect(BENCH_GPU(3)), 64);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST), 0);
    q = bench_queue(&b, 1, engine, 4096);
    put_fence(q, BENCH_HOST, 2);
    bench_ring(q);
    for (int i = 0; i < 100000 && *bench_word(&b, BENCH_HOST) != 2; i++) {
        emu_sdma_engine_step(engine, 100);
    }
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST), 2);
    ck_assert_msg(b.reported == 0, "%s", b.text);
    done();
}
END_TEST

/* A copy writes wrong bytes, a POLL does not wait, a COND_EXE skips nothing. */
START_TEST(spoiled)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());

    config.spoil_kinds = 1u << EMU_SDMA_COPY | 1u << EMU_SDMA_POLL | 1u << EMU_SDMA_COND_EXE;
    begin_with(&config);
    *bench_word(&b, BENCH_HOST) = *bench_word(&b, BENCH_HOST + 4) = 0;
    put_poll(q, 3, BENCH_HOST, 1, EMU_SDMA_FOREVER);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 64);
    put_cond(q, BENCH_HOST, 4);
    put_fence(q, BENCH_HOST + 4, 7);
    end_with(EMU_SDMA_IDLE);
    ck_assert_mem_ne(bench_at(&b, BENCH_GPU(2)), expect(BENCH_GPU(1)), 64);
    ck_assert_uint_eq(*bench_word(&b, BENCH_HOST + 4), 7);
    ck_assert_msg(b.reported == 0, "%s", b.text);
    done();
}
END_TEST

START_TEST(faults)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, unit_seed());

    config.fault_kinds = 1u << EMU_SDMA_SWAP;
    begin_with(&config);
    put_copy(q, BENCH_GPU(2), BENCH_GPU(1), 64);
    put_swap(q, BENCH_GPU(3), BENCH_GPU(2), 64);
    end_with(EMU_SDMA_DEAD);
    ck_assert_uint_eq(b.faults, 1);
    ck_assert_uint_eq(b.reports[EMU_SDMA_INJECTED], 1);
    ck_assert_mem_eq(bench_at(&b, BENCH_GPU(3)), expect(BENCH_GPU(3)), 64);
    done();
}
END_TEST

/* A queue is destroyed after its last packet was fetched and before the packet has ended: of a NOP nobody can know that. */
START_TEST(destroyed_at_its_end)
{
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX90A, unit_seed());
    bool nop = _i;

    config.delay_ns = UINT64_C(1000000000000);
    begin_with(&config);
    if (nop) {
        put(0);
    } else {
        put_fence(q, BENCH_HOST + 0x2000, 1);
    }
    bench_ring(q);
    bench_run(engine, 3);
    ck_assert_uint_eq(q->rptr, q->written);
    emu_sdma_queue_destroy(q->queue);
    if (nop) {
        ck_assert_msg(!b.reported, "%s", b.text);
    } else {
        ck_assert_msg(b.reports[EMU_SDMA_DESTROY_BUSY] == 1 && b.reported == 1, "%u reports: %s", b.reported, b.text);
    }
    bench_end(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_sdma");

    unit_loop(suite, copy, 0, 9, 10);
    unit_loop(suite, broadcast, 0, 10, 10);
    unit_loop(suite, swap, 0, 20, 10);
    unit_loop(suite, rect, 0, 5, 10);
    unit_loop(suite, rect_columns, 0, 5, 10);
    unit_loop(suite, write, 0, 2, 10);
    unit_test(suite, fill, 10);
    unit_test(suite, fence_and_trap, 10);
    unit_test(suite, nops, 10);
    unit_loop(suite, atomics, 0, 12, 10);
    unit_test(suite, atomic_loop, 10);
    unit_test(suite, timestamp, 10);
    unit_test(suite, hdp_flush, 10);
    unit_loop(suite, polls, 0, 21, 10);
    unit_test(suite, early_polls, 10);
    unit_test(suite, poll_interval, 10);
    unit_loop(suite, conditional, 0, 2, 10);
    unit_test(suite, statistics, 10);
    unit_test(suite, hangs, 10);
    unit_test(suite, spoiled, 10);
    unit_test(suite, faults, 10);
    unit_loop(suite, destroyed_at_its_end, 0, 2, 10);
    return unit_main(suite);
}
