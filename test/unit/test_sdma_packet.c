/* SDMA packets: golden words, round trips through the independent decoder, limits of the generations. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/hw/gen.h"
#include "engine/sdma/hw/packet.h"
#include "libsdma_decode.h"
#include "libunit.h"

#define A      UINT64_C(0x123456789abcdef0)
#define B      UINT64_C(0x0fedcba987654320)
#define C      UINT64_C(0x7fff00112233aa20)
#define MIB    (UINT64_C(1) << 20)
#define CANARY 0xdeadbeef
#define ROUNDS 5000

static const dma_gen_t *generation(const char *name)
{
    static const struct {
        const char *name;
        uint32_t device, version;
    } known[] = {{"gfx9", 0x66a1, 90006},
                 {"gfx90a", 0x7408, 90010},
                 {"gfx942", 0x74a1, 90402},
                 {"gfx942 (MI308X)", 0x74a2, 90402},
                 {"gfx950", 0x75a0, 90500}};
    const char *reason;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (!strcmp(known[i].name, name)) {
            return dma_gen_find(known[i].device, known[i].version, &reason);
        }
    }
    return NULL;
}

/* Random 64-bit values of random length, so that short and long ones are equally likely. */
static uint64_t random_bits(struct random_data *state)
{
    int32_t a, b, c;

    random_r(state, &a);
    random_r(state, &b);
    random_r(state, &c);
    return ((uint64_t)a << 42 ^ (uint64_t)b << 21 ^ (uint64_t)c) >> (c % 64);
}

static struct random_data *seeded(int salt)
{
    static struct random_data state;
    static char memory[128];

    memset(&state, 0, sizeof(state));
    initstate_r((unsigned)unit_seed() + (unsigned)salt, memory, sizeof(memory), &state);
    return &state;
}

#define golden(call, ...)                                                                                              \
    do {                                                                                                               \
        static const uint32_t want_[] = {__VA_ARGS__};                                                                 \
        uint32_t p[32];                                                                                                \
        memset(p, 0xa5, sizeof(p));                                                                                    \
        ck_assert_uint_eq(call, sizeof(want_) / sizeof(want_[0]));                                                     \
        ck_assert_mem_eq(p, want_, sizeof(want_));                                                                     \
        ck_assert_uint_eq(p[sizeof(want_) / sizeof(want_[0])], 0xa5a5a5a5);                                            \
    } while (0)

START_TEST(golden_words)
{
    const dma_gen_t *gen = generation("gfx942");
    const dma_rect_t rect = {
        .dst = 0x200001000, .src = 0x100000010, .dst_pitch = 4096, .src_pitch = 512, .row_bytes = 256, .rows = 8};

    golden(dma_packet_copy(p, gen, A, B, 0x1000), 0x00000001, 0xfff, 0, 0x87654320, 0x0fedcba9, 0x9abcdef0, 0x12345678);
    golden(dma_packet_broadcast(p, gen, A, C, B, 1), 0x08000001, 0, 0, 0x87654320, 0x0fedcba9, 0x9abcdef0, 0x12345678,
           0x2233aa20, 0x7fff0011);
    golden(dma_packet_swap(p, gen, 0x100000040, 0x200000080, 64), 0x00000901, 63, 0, 0x00000040, 1, 0x00000080, 2);
    golden(dma_packet_fence(p, A, 0xcafe), 0x00000005, 0x9abcdef0, 0x12345678, 0xcafe);
    golden(dma_packet_poll(p, A, DMA_PACKET_AT_LEAST, 5, 0xffffffff, 4), 0xd0000008, 0x9abcdef0, 0x12345678, 5,
           0xffffffff, 0x0fff0004);
    golden(dma_packet_poll(p, A, DMA_PACKET_EQUAL, 0, 1, 0x12345), 0xb0000008, 0x9abcdef0, 0x12345678, 0, 1,
           0x0fffffff);
    golden(dma_packet_cond(p, A, 1, 0x3fff), 0x00000009, 0x9abcdef0, 0x12345678, 1, 0x3fff);
    golden(dma_packet_timestamp(p, A), 0x0000020d, 0x9abcdef0, 0x12345678);
    /* 16-byte elements: pitches 32 and 256, a window of 16 x 8 */
    golden(dma_packet_rect(p, &rect, 4), 0x80000401, 0x00000010, 1, 0, 31u << 13, 255, 0x00001000, 2, 0, 255u << 13,
           2047, 15 | 7u << 16, 0);
}
END_TEST

START_TEST(lengths_are_as_stated)
{
    uint32_t p[32];
    const dma_gen_t *gen = generation("gfx942");
    const dma_rect_t rect = {.dst_pitch = 64, .src_pitch = 64, .row_bytes = 64, .rows = 2};

    ck_assert_uint_eq(dma_packet_copy(p, gen, A, B, 8), DMA_PACKET_COPY_DWORDS);
    ck_assert_uint_eq(dma_packet_broadcast(p, gen, A, B, C, 8), DMA_PACKET_BROADCAST_DWORDS);
    ck_assert_uint_eq(dma_packet_swap(p, gen, A, B, 8), DMA_PACKET_SWAP_DWORDS);
    ck_assert_uint_eq(dma_packet_rect(p, &rect, 0), DMA_PACKET_RECT_DWORDS);
    ck_assert_uint_eq(dma_packet_fence(p, A, 1), DMA_PACKET_FENCE_DWORDS);
    ck_assert_uint_eq(dma_packet_poll(p, A, DMA_PACKET_EQUAL, 1, 1, 1), DMA_PACKET_POLL_DWORDS);
    ck_assert_uint_eq(dma_packet_cond(p, A, 1, 1), DMA_PACKET_COND_DWORDS);
}
END_TEST

/* What does not fit into a field is refused, and nothing is written. */
START_TEST(what_cannot_be_said)
{
    uint32_t p[4] = {CANARY, CANARY, CANARY, CANARY};
    const dma_gen_t *gen = generation("gfx942");

    ck_assert_uint_eq(dma_packet_copy(p, gen, A, B, 0), 0);
    ck_assert_uint_eq(dma_packet_broadcast(p, gen, A, B, C, 0), 0);
    ck_assert_uint_eq(dma_packet_swap(p, gen, A, B, 0), 0);
    ck_assert_uint_eq(dma_packet_cond(p, A, 1, DMA_PACKET_COND_MAX + 1), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_uint_eq(p[i], CANARY);
    }
}
END_TEST

static sdma_packet_t decoded(const uint32_t *p, size_t dwords)
{
    sdma_packet_t packet;
    const char *why = "";
    size_t got = sdma_decode(p, dwords, &packet, &why);

    ck_assert_msg(got == dwords, "%zu dwords of %zu: %s", got, dwords, why);
    return packet;
}

START_TEST(round_trips)
{
    struct random_data *state = seeded(1);
    const dma_gen_t *gen = generation("gfx942");

    for (int i = 0; i < ROUNDS; i++) {
        uint32_t p[80], v = (uint32_t)random_bits(state), m = (uint32_t)random_bits(state);
        uint64_t a = random_bits(state), b = random_bits(state), c = random_bits(state);
        uint64_t bytes = random_bits(state) % gen->max_copy + 1;
        sdma_packet_t d;

        d = decoded(p, dma_packet_copy(p, gen, a, b, bytes));
        ck_assert(d.kind == SDMA_COPY && d.dst == a && d.src == b && d.bytes == bytes);
        d = decoded(p, dma_packet_broadcast(p, gen, a, b, c, bytes));
        ck_assert(d.kind == SDMA_BROADCAST && d.dst == a && d.dst1 == b && d.src == c && d.bytes == bytes);
        bytes = bytes % gen->max_swap + 1;
        d = decoded(p, dma_packet_swap(p, gen, a, b, bytes));
        ck_assert(d.kind == SDMA_SWAP && d.src == a && d.dst == b && d.bytes == bytes);
        d = decoded(p, dma_packet_fence(p, a, v));
        ck_assert(d.kind == SDMA_FENCE && d.addr == a && d.value == v);
        d = decoded(p, dma_packet_poll(p, a, i % 2 ? DMA_PACKET_EQUAL : DMA_PACKET_AT_LEAST, v, m, v & 0xffff));
        ck_assert(d.kind == SDMA_POLL && d.addr == a && d.value == v && d.mask == m);
        ck_assert(d.interval == (v & 0xffff) && d.retries == 0xfff && d.test == (i % 2 ? 3 : 5));
        d = decoded(p, dma_packet_cond(p, a, v, m & 0x3fff));
        ck_assert(d.kind == SDMA_COND && d.addr == a && d.value == v && d.covered == (m & 0x3fff));
    }
    ck_assert_int_eq(decoded((uint32_t[]){8, 0, 0x80000000, 0, 0, 0}, 6).kind, SDMA_HDP_FLUSH);
}
END_TEST

/* A copy beyond the limit becomes pieces that cover it once, in order, each within the limit and as aligned. */
START_TEST(pieces)
{
    static const char *const names[] = {"gfx9", "gfx90a", "gfx942", "gfx950"};
    struct random_data *state = seeded(2);

    for (int i = 0; i < 400; i++) {
        const dma_gen_t *gen = generation(names[i % 4]);
        bool swap = i % 3 == 2 && gen->has & DMA_GEN_SWAP, two = i % 3 == 1 && gen->has & DMA_GEN_BROADCAST;
        uint64_t limit = swap ? gen->max_swap : gen->max_copy;
        uint64_t whole = limit * (uint64_t)(i % 7), bytes = whole + random_bits(state) % limit;
        uint64_t a = random_bits(state) & ~UINT64_C(63), b = random_bits(state) & ~UINT64_C(63), done = 0;
        uint32_t p[9 * 8], n;
        uint64_t packets = dma_gen_pieces(bytes, limit);

        n = swap  ? dma_packet_swap(p, gen, a, b, bytes)
            : two ? dma_packet_broadcast(p, gen, b, b + 32, a, bytes)
                  : dma_packet_copy(p, gen, b, a, bytes);
        ck_assert_uint_eq(n, packets * (two ? DMA_PACKET_BROADCAST_DWORDS : DMA_PACKET_COPY_DWORDS));
        for (uint32_t at = 0; at < n;) {
            sdma_packet_t d;
            const char *why;
            at += (uint32_t)sdma_decode(p + at, n - at, &d, &why);
            ck_assert_int_eq(d.kind, swap ? SDMA_SWAP : two ? SDMA_BROADCAST : SDMA_COPY);
            ck_assert_uint_eq(d.src, a + done);
            ck_assert_uint_eq(d.dst, b + done);
            ck_assert(!two || d.dst1 == b + 32 + done);
            ck_assert_uint_le(d.bytes, limit);
            ck_assert(!swap || (d.src | d.dst) % 64 == 0);
            done += d.bytes;
        }
        ck_assert_uint_eq(done, bytes);
    }
    ck_assert_uint_eq(dma_gen_pieces(0, MIB), 0);
    ck_assert_uint_eq(dma_gen_pieces(1, MIB), 1);
    ck_assert_uint_eq(dma_gen_pieces(MIB, MIB), 1);
    ck_assert_uint_eq(dma_gen_pieces(MIB + 1, MIB), 2);
}
END_TEST

START_TEST(generations)
{
    const char *reason = NULL;
    const dma_gen_t *mi300x = dma_gen_find(0x74a1, 90402, &reason);

    /* larger packets hang engines of MI355X */
    ck_assert_uint_eq(mi300x->max_copy, 128 * MIB);
    ck_assert_uint_eq(mi300x->max_swap, 128 * MIB);
    ck_assert_uint_eq(generation("gfx90a")->max_copy, 128 * MIB);
    ck_assert_uint_eq(generation("gfx942 (MI308X)")->max_copy, 128 * MIB);
    ck_assert_uint_eq(generation("gfx942 (MI308X)")->max_swap, 128 * MIB);
    ck_assert_uint_eq(generation("gfx950")->max_copy, 128 * MIB);
    ck_assert_uint_eq(generation("gfx950")->max_swap, 128 * MIB);
    ck_assert_uint_eq(generation("gfx9")->max_copy, 4 * MIB - 32);
    ck_assert(!mi300x->even_engines && generation("gfx942 (MI308X)")->even_engines);
    /* MI308X, HF, and their virtual functions are the same part */
    for (size_t i = 0; i < 4; i++) {
        static const uint32_t parts[] = {0x74a2, 0x74a8, 0x74b6, 0x74bc};

        ck_assert_msg(dma_gen_find(parts[i], 90402, &reason)->even_engines, "%#x", parts[i]);
    }
    ck_assert(!(generation("gfx90a")->has & DMA_GEN_SWAP) && generation("gfx90a")->has & DMA_GEN_BROADCAST);
    ck_assert(!(generation("gfx9")->has & (DMA_GEN_SWAP | DMA_GEN_BROADCAST)));
    /* a POLL may end early on all of gfx 9.0 but gfx90a, and nobody knows what else has that fault */
    for (size_t i = 0; i < 7; i++) {
        static const uint32_t versions[] = {90000, 90002, 90006, 90008, 90012, 90401, 90600};

        ck_assert_msg(!(dma_gen_find(0xffff, versions[i], &reason)->has & DMA_GEN_POLL), "%u", versions[i]);
    }
    ck_assert(mi300x->has & DMA_GEN_POLL && generation("gfx90a")->has & DMA_GEN_POLL);
    ck_assert(generation("gfx950")->has & DMA_GEN_POLL && generation("gfx942 (MI308X)")->has & DMA_GEN_POLL);
    /* the device id comes first: a runtime may call an MI300X gfx90a */
    ck_assert_ptr_eq(dma_gen_find(0x74a1, 90010, &reason), mi300x);
    /* an unknown device goes by its version */
    ck_assert_ptr_eq(dma_gen_find(0xffff, 90402, &reason), mi300x);
    ck_assert_str_eq(dma_gen_find(0xffff, 90010, &reason)->name, "gfx90a");
    ck_assert_str_eq(dma_gen_find(0xffff, 90500, &reason)->name, "gfx950");
    ck_assert_str_eq(dma_gen_find(0xffff, 90008, &reason)->name, "gfx9");
    ck_assert_ptr_null(reason);
    ck_assert_ptr_null(dma_gen_find(0xffff, 110000, &reason));
    ck_assert_str_eq(reason, "its SDMA engines are of another generation than gfx9, with other packets");
    ck_assert_ptr_null(dma_gen_find(0xffff, 0, &reason));
    ck_assert_str_eq(reason, "it does not say its gfx version");
}
END_TEST

START_TEST(alignment_rules)
{
    const dma_gen_t *old = generation("gfx90a"), *gen = generation("gfx942");

    ck_assert_ptr_null(dma_gen_broadcast_unfit(gen, 0x1000, 0x2000));
    ck_assert_ptr_null(dma_gen_broadcast_unfit(gen, 0x1007, 0x2027));
    ck_assert_ptr_null(dma_gen_broadcast_unfit(gen, 0x2027, 0x1007));
    ck_assert_ptr_nonnull(dma_gen_broadcast_unfit(gen, 0x1010, 0x2000));
    ck_assert_ptr_nonnull(dma_gen_broadcast_unfit(gen, 0x1000, 0x2001));
    ck_assert_ptr_nonnull(dma_gen_broadcast_unfit(generation("gfx9"), 0x1000, 0x2000));
    ck_assert_ptr_null(dma_gen_swap_unfit(gen, 0x1000, 0x2040, 4096));
    ck_assert_ptr_null(dma_gen_swap_unfit(gen, 0x1000, 0x2000, 1));
    ck_assert_ptr_nonnull(dma_gen_swap_unfit(gen, 0x1020, 0x2000, 64));
    ck_assert_ptr_nonnull(dma_gen_swap_unfit(gen, 0x1000, 0x2020, 64));
    ck_assert_ptr_nonnull(dma_gen_swap_unfit(gen, 0x1000, 0x1040, 65));
    ck_assert_ptr_nonnull(dma_gen_swap_unfit(gen, 0x1040, 0x1000, 65));
    ck_assert_ptr_null(dma_gen_swap_unfit(gen, 0x1040, 0x1000, 64));
    ck_assert_ptr_nonnull(dma_gen_swap_unfit(old, 0x1000, 0x2000, 64));
}
END_TEST

/* The decoder is no rubber stamp. */
START_TEST(decoder_refuses)
{
    sdma_packet_t d;
    const char *why = NULL;
    uint32_t p[16] = {0};

    dma_packet_copy(p, generation("gfx942"), A, B, 100);
    ck_assert_uint_eq(sdma_decode(p, 6, &d, &why), 0);
    ck_assert_str_eq(why, "cut off");
    ck_assert_uint_eq(sdma_decode(p, 0, &d, &why), 0);
    p[1] |= UINT32_C(1) << 30;
    ck_assert_uint_eq(sdma_decode(p, 7, &d, &why), 0);
    ck_assert_str_eq(why, "a bit is set that means nothing");
    p[0] = 0x77;
    ck_assert_uint_eq(sdma_decode(p, 7, &d, &why), 0);
    ck_assert_str_eq(why, "no packet begins like this");
    p[0] = 0x00090000;
    ck_assert_uint_eq(sdma_decode(p, 9, &d, &why), 0);
    ck_assert_uint_eq(sdma_decode(p, 10, &d, &why), 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma packets");

    unit_test(suite, golden_words, 5);
    unit_test(suite, lengths_are_as_stated, 5);
    unit_test(suite, what_cannot_be_said, 5);
    unit_test(suite, round_trips, 20);
    unit_test(suite, pieces, 10);
    unit_test(suite, generations, 5);
    unit_test(suite, alignment_rules, 5);
    unit_test(suite, decoder_refuses, 5);
    return unit_main(suite);
}
