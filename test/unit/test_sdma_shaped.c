/*
 * Copies between shapes as packets, on the emulated engine: which packets they become, that the bytes arrive, that those
 * between them stay, and that no two packets race. The ring is small, so lowering stops and continues often.
 *
 *   BENCH_GPU(0)   source; memory in between at TEMP       BENCH_GPU(1)   destination      BENCH_HOST   words
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "engine/sdma/hw/packet.h"
#include "engine/sdma/run/shaped.h"
#include "libsdma_decode.h"
#include "libunit.h"

#define ROUNDS 400
#define TEMP   0x20000u /* in GPU 0: half of it is source */
#define ROOM   TEMP
#define RING   4096u
#define DONE   (BENCH_HOST + 0x1000)

static bench_t b;
static bench_queue_t *q;
static emu_sdma_engine_t *engine;
static dma_queue_t queue;
static const dma_gen_t *gen;
static bool polls;                        /* else a POLL may end early, and there must be none */
static uint64_t drained;                  /* what was waited for last */
static unsigned seen[SDMA_TIMESTAMP + 1]; /* packets, by kind */

static uint64_t below(uint64_t n)
{
    return (uint64_t)random() % n;
}

static void begin(uint64_t seed)
{
    emu_sdma_config_t config = emu_sdma_config(polls ? EMU_SDMA_GFX942 : EMU_SDMA_GFX900, seed);
    const char *reason;

    config.early_polls = polls ? 0 : 4;
    bench_begin(&b, &config);
    engine = bench_engine(&b, 0, 2, EMU_SDMA_XGMI);
    q = bench_queue(&b, 0, engine, RING);
    gen = polls ? dma_gen_find(0x74a1, 90402, &reason) : dma_gen_find(0x738c, 90008, &reason);
    queue = (dma_queue_t){.step_addr = BENCH_HOST, .step_word = (_Atomic uint32_t *)bench_word(&b, BENCH_HOST)};
    *bench_word(&b, BENCH_HOST) = 0;
    *bench_word(&b, DONE) = 0;
    drained = 0;
    ck_assert_int_eq(dma_ring_init(&queue.ring, &(dma_ring_memory_t){.ring = (uint32_t *)q->ring,
                                                                     .bytes = RING,
                                                                     .read_ptr = &q->rptr,
                                                                     .write_ptr = &q->wptr,
                                                                     .doorbell = &q->doorbell}),
                     DMA_OK);
    memset(seen, 0, sizeof(seen));
}

/* Steps through temporary memory are separated by a fence and, right behind it, a wait for the value of this fence. The emulated
 * engine would keep the order with the fence alone, so the packets are read. */
static void check_drain(const sdma_packet_t *fence, const sdma_packet_t *poll)
{
    ck_assert_int_eq(fence->kind, SDMA_FENCE);
    ck_assert_uint_eq(fence->addr, queue.step_addr);
    ck_assert_uint_eq(poll->addr, queue.step_addr);
    ck_assert_uint_eq(poll->test, 3);
    ck_assert_uint_eq(poll->value, fence->value);
    ck_assert_uint_eq(poll->mask, UINT32_MAX);
    ck_assert_uint_ne(poll->value, drained);
    drained = poll->value;
}

/* Counts the packets from one position of the ring to the next. */
static void look(uint64_t from, uint64_t to)
{
    sdma_packet_t before = {.kind = SDMA_NOP};

    while (from < to) {
        const uint32_t *at = (const uint32_t *)(q->ring + from % RING);
        sdma_packet_t p;
        const char *why = "";
        size_t n = sdma_decode(at, (size_t)((to - from) / 4), &p, &why);

        if (!n) {
            ck_abort_msg("%s", why);
        }
        seen[p.kind]++;
        if (p.kind == SDMA_POLL) {
            check_drain(&before, &p);
        }
        before = p;
        from += 4 * n;
    }
}

static void publish(void)
{
    look(queue.ring.published, queue.ring.reserved);
    dma_ring_publish(&queue.ring);
    bench_run(engine, 1000);
    if (b.reported) {
        ck_abort_msg("%s", b.text);
    }
}

/* All of a copy, and a fence behind it. */
static void run(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    dma_shaped_t s = {.temp = BENCH_GPU(0) + TEMP};
    uint32_t *p;

    dma_shaped_begin(&s, dst, src, bytes);
    while (dma_shaped_put(&s, gen, &queue) == DMA_AGAIN) {
        publish();
    }
    while (dma_ring_reserve(&queue.ring, DMA_PACKET_FENCE_DWORDS, 1, &p) == DMA_AGAIN) {
        publish();
    }
    dma_packet_fence(p, DONE, 77);
    publish();
    ck_assert_uint_eq(*bench_word(&b, DONE), 77);
}

/* By the definition: where byte x of a block is. */
static uint64_t where(const dma_shape_t *s, uint64_t x)
{
    uint64_t row = s->row ? x / s->row : 0, rows = s->rows ? s->rows : UINT64_MAX;

    return s->row ? row / rows * s->step + row % rows * s->pitch + x % s->row : x;
}

/* The same by the definition, and whether the engine's memory is what it should be. */
static void moves(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    static char want[BENCH_BYTES];

    memcpy(want, bench_at(&b, BENCH_GPU(1)), BENCH_BYTES);
    for (uint64_t x = 0; x < bytes; x++) {
        want[dst->addr - BENCH_GPU(1) + where(&dst->shape, dst->skip + x)] =
            *(bench_at(&b, BENCH_GPU(0)) + (src->addr - BENCH_GPU(0)) + where(&src->shape, src->skip + x));
    }
    run(dst, src, bytes);
    ck_assert(!memcmp(want, bench_at(&b, BENCH_GPU(1)), BENCH_BYTES));
}

static void between(uint64_t to, dma_shape_t dst, uint64_t from, dma_shape_t src, uint64_t bytes)
{
    dma_location_t d = {.addr = BENCH_GPU(1) + to, .shape = dst}, s = {.addr = BENCH_GPU(0) + from, .shape = src};

    moves(&d, &s, bytes);
}

static const dma_shape_t dense;

#define CASES 12

START_TEST(becomes_few_packets)
{
    const struct {
        uint64_t to;
        dma_shape_t dst;
        uint64_t from;
        dma_shape_t src;
        uint64_t bytes;
        unsigned rects, copies, fences;
    } cases[] = {
        {0, dense, 0, {64, 0, 128, 0}, 6400, 1, 0, 1},
        {0, {64, 0, 128, 0}, 0, dense, 6400, 1, 0, 1},
        {0, {64, 0, 128, 0}, 0, {96, 0, 100, 0}, 19200, 4, 0, 1},
        {1, {64, 0, 130, 0}, 0, {64, 0, 100, 0}, 6400, 2, 0, 1},  /* every second row */
        {1, {64, 0, 131, 0}, 0, {64, 0, 100, 0}, 6400, 4, 0, 1},  /* every fourth */
        {0, dense, 0, {4, 100, 400, 4}, 40000, 100, 0, 1},        /* a matrix transposed */
        {1, {20000, 0, 20004, 0}, 0, dense, 80000, 0, 4, 1},      /* bytes as elements: rows are too long */
        {0, {20000, 0, 20004, 0}, 0, dense, 80000, 1, 0, 1},      /* words */
        {0, {64, 0, 131, 0}, 0, {64, 0, 100, 0}, 128, 0, 2, 1},   /* two rows: plain copies do as well */
        {0, {61, 0, 128, 0}, 0, {67, 0, 128, 0}, 40870, 8, 0, 3}, /* 128 times four, or memory in between */
        {0, dense, 0, dense, 100, 0, 1, 1},
        {0, {64, 0, 128, 0}, 0, dense, 0, 0, 0, 1},
    };

    const int i = _i % CASES;

    polls = _i < CASES;
    begin((uint64_t)_i + 1);
    between(cases[i].to, cases[i].dst, cases[i].from, cases[i].src, cases[i].bytes);
    ck_assert_uint_eq(seen[SDMA_RECT], cases[i].rects);
    ck_assert_uint_eq(seen[SDMA_COPY], cases[i].copies);
    ck_assert_uint_eq(seen[SDMA_FENCE], cases[i].fences);
    ck_assert_uint_eq(seen[SDMA_POLL], polls ? cases[i].fences - 1 : 0); /* behind the last one nothing follows */
    bench_end(&b);
}
END_TEST

static dma_shape_t draw(uint64_t bytes)
{
    uint64_t align = UINT64_C(1) << below(5);
    dma_shape_t s = {.row = (1 + below(below(2) ? 8 : 64)) * align};

    if (!below(5)) {
        return dense;
    }
    s.pitch = s.row + below(10) * (below(2) ? align : 1);
    if (below(2)) {
        s.rows = 1 + below(8);
        s.step = (s.rows - 1) * s.pitch + s.row + below(40);
        if (!below(3)) {
            s.step = s.row + below(2) * align;
            s.pitch = s.step * (bytes / (s.row * s.rows) + 2);
        }
    }
    return s;
}

START_TEST(arrives)
{
    int done = 0;

    polls = _i % 2;
    srandom((unsigned)(unit_seed() + (uint64_t)_i));
    for (int i = 0; i < ROUNDS / 4; i++) {
        uint64_t bytes = 1 + below(below(4) ? 2000 : 20000), skip = below(3) ? 0 : below(bytes);
        dma_location_t d = {.addr = BENCH_GPU(1) + below(64), .skip = skip, .shape = draw(bytes)};
        dma_location_t s = {.addr = BENCH_GPU(0) + below(64), .skip = skip, .shape = draw(bytes)};

        if (dma_shape_span(&d.shape, bytes) + 64 > ROOM || dma_shape_span(&s.shape, bytes) + 64 > ROOM) {
            continue;
        }
        begin(unit_seed() + (uint64_t)i);
        moves(&d, &s, bytes - skip);
        bench_end(&b);
        done++;
    }
    ck_assert_int_gt(done, ROUNDS / 8);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sdma_shaped");

    unit_loop(s, becomes_few_packets, 0, 2 * CASES, 10);
    unit_loop(s, arrives, 0, 4, 30);
    return unit_main(s);
}
