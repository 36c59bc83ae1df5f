/*
 * Random programs for the emulated SDMA engines, against a model that does one packet after the other with memcpy.
 *
 * There are four queues on two engines. Each queue has memory of its own, on two GPUs and on the host. A program is
 * correct: before a packet that depends on an earlier one since the last FENCE, TRAP or ATOMIC, it has another of
 * these. So there must be no report, and at the end every byte of the node is as in the model. A second test has
 * queues that wait for each other.
 *
 *   each area (GPU 1, GPU 2, host) | window of queue 0 | window of queue 1 | ... | words of the queues (host only) |
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../emu/sdma_bench.h"
#include "../emu/sdma_packet.h"
#include "libunit.h"

#define QUEUES  4
#define WINDOW  0x4000u
#define PACKETS 300
#define CHUNK   160 /* dwords of packets that belong together */
#define PENDING 256
#define WORDS   (BENCH_HOST + 0x20000)

#define LO(va) (uint32_t)(va)
#define HI(va) (uint32_t)((va) >> 32)

static const uint64_t areas[] = {BENCH_GPU(1), BENCH_GPU(2), BENCH_HOST};
static char *model[BENCH_GPUS + 1];
static bench_t b;
static uint64_t state;

typedef struct range {
    uint64_t va, bytes;
    bool written;
} range_t;

/* What one queue gets. */
typedef struct program {
    bench_queue_t *q;
    unsigned id;
    uint32_t dw[CHUNK]; /* not in the ring yet */
    unsigned n;
    bool skipped; /* after a COND_EXE that skips */
    range_t pending[PENDING];
    unsigned npending;
    uint32_t fences, traps;
} program_t;

static uint64_t below(uint64_t bound)
{
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (state >> 33) % bound;
}

static uint64_t base(unsigned i)
{
    return i < BENCH_GPUS ? BENCH_GPU(i) : BENCH_HOST;
}

static char *in_model(uint64_t va)
{
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        if (va >= base(i) && va - base(i) < BENCH_BYTES) {
            return model[i] + (va - base(i));
        }
    }
    ck_abort_msg("no such memory");
    return NULL;
}

static void add(program_t *p, const uint32_t *dw, unsigned n)
{
    ck_assert_uint_le(p->n + n, CHUNK);
    memcpy(p->dw + p->n, dw, 4 * n);
    p->n += n;
}

#define ADD(p, ...) add(p, (const uint32_t[]){__VA_ARGS__}, sizeof((uint32_t[]){__VA_ARGS__}) / 4)

/* The words of a queue: written by FENCE (0), counted up (1), polled (2: 5), and of COND_EXE, skips (3: 0) and does
 * not skip (4: 1). */
static uint64_t word(const program_t *p, unsigned which)
{
    return WORDS + p->id * 256 + which * 8;
}

/* One of the packets that order a queue, or a FENCE with a wait for it. */
static void drain(program_t *p)
{
    uint64_t sum;

    switch (below(3)) {
    case 0:
        p->fences++;
        ADD(p, 5, LO(word(p, 0)), HI(word(p, 0)), p->fences);
        ADD(p, 8 | 1u << 31 | 3 << 28, LO(word(p, 0)), HI(word(p, 0)), p->fences, 0xffffffff, EMU_SDMA_FOREVER << 16);
        if (!p->skipped) {
            memcpy(in_model(word(p, 0)), &p->fences, 4);
        }
        break;
    case 1:
        ADD(p, 6, p->id);
        p->traps += !p->skipped;
        break;
    default:
        ADD(p, 10 | 47u << 25, LO(word(p, 1)), HI(word(p, 1)), 3, 0, 0, 0, 0);
        if (!p->skipped) {
            memcpy(&sum, in_model(word(p, 1)), 8);
            sum += 3;
            memcpy(in_model(word(p, 1)), &sum, 8);
        }
    }
    if (!p->skipped) {
        p->npending = 0;
    }
}

static bool clash(const range_t *x, const range_t *y)
{
    return (x->written || y->written) && x->va < y->va + y->bytes && y->va < x->va + x->bytes;
}

/* Records what a packet uses. If necessary, an ordering packet is inserted before it. */
static void use(program_t *p, const range_t *ranges, unsigned n)
{
    bool late = p->npending + n > PENDING;

    for (unsigned i = 0; i < p->npending; i++) {
        for (unsigned j = 0; j < n; j++) {
            late |= clash(&p->pending[i], &ranges[j]);
        }
    }
    if (late) {
        drain(p);
    }
    for (unsigned i = 0; i < n && !p->skipped; i++) {
        p->pending[p->npending++] = ranges[i];
    }
}

/* An address of this queue with room for `bytes` after it. */
static uint64_t pick(const program_t *p, uint64_t bytes, unsigned align)
{
    return areas[below(3)] + p->id * WINDOW + below((WINDOW - bytes) / align + 1) * align;
}

static uint64_t size(uint64_t most)
{
    return 1 + below(below(4) ? 200 : most);
}

static bool apart(uint64_t x, uint64_t y, uint64_t bytes)
{
    return x + bytes <= y || y + bytes <= x;
}

static void copy(program_t *p)
{
    uint64_t bytes = size(4000), src = pick(p, bytes, 1), dst = pick(p, bytes, 1);

    if (apart(src, dst, bytes)) {
        use(p, (const range_t[]){{src, bytes, false}, {dst, bytes, true}}, 2);
        ADD(p, 1, (uint32_t)bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst));
        if (!p->skipped) {
            memcpy(in_model(dst), in_model(src), bytes);
        }
    }
}

static void broadcast(program_t *p)
{
    uint64_t bytes = size(4000), src = pick(p, bytes, 1), dst = pick(p, bytes, 32), dst2 = pick(p, bytes, 32);

    if (apart(src, dst, bytes) && apart(src, dst2, bytes) && apart(dst, dst2, bytes)) {
        use(p, (const range_t[]){{src, bytes, false}, {dst, bytes, true}, {dst2, bytes, true}}, 3);
        ADD(p, 0x08000001, (uint32_t)bytes - 1, 0, LO(src), HI(src), LO(dst), HI(dst), LO(dst2), HI(dst2));
        if (!p->skipped) {
            memcpy(in_model(dst), in_model(src), bytes);
            memcpy(in_model(dst2), in_model(src), bytes);
        }
    }
}

static void swap(program_t *p)
{
    uint64_t bytes = 64 * (1 + below(40)), x = pick(p, bytes, 64), y = pick(p, bytes, 64);
    char kept[64 * 40];

    if (apart(x, y, bytes)) {
        use(p, (const range_t[]){{x, bytes, true}, {y, bytes, true}}, 2);
        ADD(p, 0x901, (uint32_t)bytes - 1, 0, LO(x), HI(x), LO(y), HI(y));
        if (!p->skipped) {
            memcpy(kept, in_model(x), bytes);
            memcpy(in_model(x), in_model(y), bytes);
            memcpy(in_model(y), kept, bytes);
        }
    }
}

static void rect(program_t *p)
{
    unsigned log2 = 2 + below(3), row = 1 + below(8), rows = 1 + below(10), slices = 1 + below(3);
    unsigned pitch = row + below(5), slice = pitch * rows + below(9), extent = slice * slices << log2;
    uint64_t src = pick(p, extent, 4), dst = pick(p, extent, 4);

    if (!apart(src, dst, extent)) {
        return;
    }
    use(p, (const range_t[]){{src, extent, false}, {dst, extent, true}}, 2);
    ADD(p, 0x401 | log2 << 29, LO(src), HI(src), 0, (pitch - 1) << 13, slice - 1, LO(dst), HI(dst), 0,
        (pitch - 1) << 13, slice - 1, (row - 1) | (rows - 1) << 16, slices - 1);
    for (unsigned z = 0; z < slices && !p->skipped; z++) {
        for (unsigned y = 0; y < rows; y++) {
            uint64_t at = (uint64_t)(z * slice + y * pitch) << log2;

            memcpy(in_model(dst + at), in_model(src + at), row << log2);
        }
    }
}

static void write(program_t *p)
{
    uint32_t dw[4 + 20], n = 1 + below(20);
    uint64_t dst = pick(p, 4 * n, 4);

    use(p, &(const range_t){dst, 4 * n, true}, 1);
    dw[0] = 2;
    dw[1] = LO(dst);
    dw[2] = HI(dst);
    dw[3] = n - 1;
    for (unsigned i = 0; i < n; i++) {
        dw[4 + i] = (uint32_t)below(UINT32_MAX);
    }
    add(p, dw, 4 + n);
    if (!p->skipped) {
        memcpy(in_model(dst), dw + 4, 4 * n);
    }
}

static void fill(program_t *p)
{
    uint64_t n = size(1000), dst = pick(p, 4 * n, 4);
    uint32_t data = (uint32_t)below(UINT32_MAX);

    use(p, &(const range_t){dst, 4 * n, true}, 1);
    ADD(p, 11 | 2u << 30, LO(dst), HI(dst), data, (uint32_t)(4 * n - 1));
    for (unsigned i = 0; i < n && !p->skipped; i++) {
        memcpy(in_model(dst + 4 * i), &data, 4);
    }
}

static void any(program_t *p)
{
    static void (*const makers[])(program_t *) = {copy, copy, broadcast, swap, rect, write, fill, drain};

    makers[below(8)](p);
}

/* One or several packets into the ring. A part that COND_EXE may skip is contiguous. */
static void advance(program_t *p)
{
    p->n = 0;
    switch (below(8)) {
    case 0: {
        unsigned start = p->n;
        uint64_t said = word(p, 3 + below(2));

        p->skipped = said == word(p, 3);
        ADD(p, 9, LO(said), HI(said), 1, 0);
        any(p);
        any(p);
        ADD(p, 0);
        p->dw[start + 4] = p->n - 5;
        p->skipped = false;
        break;
    }
    case 1:
        ADD(p, 8 | 1u << 31 | 3 << 28, LO(word(p, 2)), HI(word(p, 2)), 5, 0xffffffff, EMU_SDMA_FOREVER << 16);
        break;
    case 2:
        ADD(p, 2 << 16, 0xffffffff, 0xffffffff);
        break;
    default:
        any(p);
    }
    if (p->n) {
        bench_put(p->q, p->dw, p->n);
    }
    if (!below(4)) {
        bench_ring(p->q);
    }
}

static void set_word(const program_t *p, unsigned which, uint64_t value)
{
    memcpy(bench_at(&b, word(p, which)), &value, 8);
    memcpy(in_model(word(p, which)), &value, 8);
}

START_TEST(programs)
{
    emu_sdma_config_t config = emu_sdma_config(_i & 1 ? EMU_SDMA_GFX942 : EMU_SDMA_GFX950, unit_seed() + _i);
    emu_sdma_engine_t *engines[2];
    program_t program[QUEUES] = {0};
    unsigned traps = 0, seen[EMU_SDMA_PACKET_KINDS] = {0};

    state = unit_seed() + _i;
    config.in_flight = 1 + _i % 16;
    config.piece = 64 * (1 + _i % 7);
    config.delay_ns = _i % 3 ? 0 : 20000;
    bench_begin(&b, &config);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        model[i] = malloc(BENCH_BYTES);
        memcpy(model[i], bench_at(&b, base(i)), BENCH_BYTES);
    }
    for (unsigned i = 0; i < 2; i++) {
        engines[i] = bench_engine(&b, 1, 4 + i, EMU_SDMA_XGMI);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        program[i].q = bench_queue(&b, i, engines[i % 2], 4096);
        program[i].id = i;
        for (unsigned w = 0; w < 5; w++) {
            set_word(&program[i], w, (const uint64_t[]){0, 0, 5, 0, 1}[w]);
        }
    }
    for (unsigned i = 0; i < QUEUES * PACKETS; i++) {
        advance(&program[below(QUEUES)]);
        emu_sdma_engine_step(engines[below(2)], (unsigned)below(40));
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        bench_ring(program[i].q);
    }
    for (unsigned i = 0; i < 2; i++) {
        ck_assert_int_eq(bench_run(engines[i], 100000), EMU_SDMA_IDLE);
    }
    ck_assert_msg(b.reported == 0, "%s", b.text);
    for (unsigned i = 0; i <= BENCH_GPUS; i++) {
        ck_assert_msg(memcmp(model[i], bench_at(&b, base(i)), BENCH_BYTES) == 0, "memory %u differs", i);
        free(model[i]);
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        traps += program[i].traps;
        ck_assert_uint_gt(program[i].q->written, program[i].q->bytes);
        for (unsigned kind = 0; kind < EMU_SDMA_PACKET_KINDS; kind++) {
            seen[kind] += emu_sdma_queue_stats(program[i].q->queue)->packets[kind] > 0;
        }
    }
    for (unsigned kind = 0; kind < EMU_SDMA_PACKET_KINDS; kind++) {
        ck_assert_msg(seen[kind] || kind == EMU_SDMA_HDP_FLUSH || kind == EMU_SDMA_TIMESTAMP, "no %s",
                      emu_sdma_packet_name(kind));
    }
    ck_assert_uint_eq(b.traps, traps);
    bench_end(&b);
}
END_TEST

/* A buffer goes round through four queues, two on each engine, which wait for each other's words. Every hop counts.
 * What these waits order is not a race, and a queue that waits lets the other queue of its engine work. */
START_TEST(relay)
{
    enum { ROUNDS = 20, BYTES = 3000 };
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX90A, unit_seed() + _i);
    emu_sdma_engine_t *engines[2];
    uint32_t first;

    bench_begin(&b, &config);
    b.tick = 20000;
    for (unsigned i = 0; i < QUEUES; i++) {
        engines[i % 2] = i < 2 ? bench_engine(&b, (int)i, 4, EMU_SDMA_XGMI) : engines[i % 2];
        bench_queue(&b, i, engines[i % 2], 4096);
        *bench_word(&b, WORDS + 64 * i) = i == 0;
    }
    first = *bench_word(&b, BENCH_GPU(0));
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        for (unsigned i = 0; i < QUEUES; i++) {
            unsigned next = (i + 1) % QUEUES;

            put_poll(&b.queues[i], 5, WORDS + 64 * i, round, EMU_SDMA_FOREVER);
            put_copy(&b.queues[i], BENCH_GPU(next), BENCH_GPU(i), BYTES);
            put_atomic(&b.queues[i], 15, BENCH_GPU(next), 1, 0);
            put_fence(&b.queues[i], WORDS + 64 * next, round + (next == 0));
        }
    }
    for (unsigned i = 0; i < QUEUES; i++) {
        bench_ring(&b.queues[i]);
    }
    for (unsigned i = 0; i < 1000000 && *bench_word(&b, WORDS) != ROUNDS + 1; i++) {
        emu_sdma_engine_step(engines[i % 2], 4);
    }
    ck_assert_msg(b.reported == 0, "%s", b.text);
    ck_assert_uint_eq(*bench_word(&b, WORDS), ROUNDS + 1);
    ck_assert_uint_eq(*bench_word(&b, BENCH_GPU(0)), first + ROUNDS * QUEUES);
    ck_assert_int_eq(memcmp(bench_at(&b, BENCH_GPU(0) + 4), bench_at(&b, BENCH_GPU(3) + 4), BYTES - 4), 0);
    bench_end(&b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("emu_sdma_random");

    unit_loop(suite, programs, 0, 24, 30);
    unit_loop(suite, relay, 0, 10, 30);
    return unit_main(suite);
}
