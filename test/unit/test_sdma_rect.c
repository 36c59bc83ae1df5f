/* Strided copies in one packet: which ones fit, and that the packet moves the bytes that were asked for. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/hw/packet.h"
#include "libsdma_decode.h"
#include "libunit.h"

#define KIB    UINT64_C(1024)
#define ROUNDS 3000
#define ARENA  8192

static const dma_gen_t *gfx942(void)
{
    const char *reason;

    return dma_gen_find(0x74a1, 90402, &reason);
}

static dma_rect_t rect(uint64_t dst, uint64_t dst_pitch, uint64_t src, uint64_t src_pitch, uint64_t row, uint64_t rows)
{
    return (dma_rect_t){
        .dst = dst, .src = src, .dst_pitch = dst_pitch, .src_pitch = src_pitch, .row_bytes = row, .rows = rows};
}

/* The element, or -1 where it does not fit. */
static int element(dma_rect_t r)
{
    uint32_t e = 99;
    const char *reason = dma_rect_unfit(gfx942(), &r, &e);

    ck_assert(!reason == (e != 99));
    return reason ? -1 : (int)e;
}

START_TEST(elements)
{
    ck_assert_int_eq(element(rect(0x1000, 4096, 0x2000, 512, 256, 8)), 4);
    ck_assert_int_eq(element(rect(0x1008, 4096, 0x2000, 512, 256, 8)), 3);
    ck_assert_int_eq(element(rect(0x1000, 4096, 0x2004, 512, 256, 8)), 2);
    ck_assert_int_eq(element(rect(0x1000, 4100, 0x2000, 512, 256, 8)), 2);
    ck_assert_int_eq(element(rect(0x1000, 4096, 0x2000, 520, 256, 8)), 3);
    ck_assert_int_eq(element(rect(0x1000, 4096, 0x2000, 512, 254, 8)), 1);
    ck_assert_int_eq(element(rect(0x1001, 4096, 0x2000, 512, 256, 8)), 0);
    ck_assert_int_eq(element(rect(0x1002, 4096, 0x2002, 512, 256, 8)), 1);
}
END_TEST

START_TEST(limits)
{
    dma_rect_t r = rect(0, 64, 0, 64, 64, 2);
    uint32_t e;
    const char *reason;

    ck_assert_int_eq(element(rect(0, 256 * KIB, 0, 256 * KIB, 256 * KIB, 2)), 4); /* 16384 elements of 16 bytes */
    ck_assert_int_eq(element(rect(0, 512 * KIB, 0, 512 * KIB, 256 * KIB + 16, 2)), -1);
    ck_assert_int_eq(element(rect(1, 16 * KIB, 0, 16 * KIB, 16 * KIB, 2)), 0);
    ck_assert_int_eq(element(rect(1, 32 * KIB, 0, 32 * KIB, 16 * KIB + 1, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 64, 64, 16384)), 4);
    ck_assert_int_eq(element(rect(0, 64, 0, 64, 64, 16385)), -1);
    ck_assert_int_eq(element(rect(0, 8192 * KIB, 0, 64, 64, 2)), 4); /* 2^19 elements from row to row */
    ck_assert_int_eq(element(rect(0, 8192 * KIB + 16, 0, 64, 64, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 8192 * KIB + 16, 64, 2)), -1);
    ck_assert_int_eq(element(rect(0, 8192 * KIB, 0, 64, 64, 512)), 4); /* 2^28 elements from plane to plane */
    ck_assert_int_eq(element(rect(0, 8192 * KIB, 0, 64, 64, 513)), -1);
    ck_assert_int_eq(element(rect(0, 63, 0, 64, 60, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 66, 60, 2)), -1);
    ck_assert_int_eq(element(rect(0, 60, 0, 64, 64, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 60, 64, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 64, 0, 2)), -1);
    ck_assert_int_eq(element(rect(0, 64, 0, 64, 64, 0)), -1);

    dma_gen_t none = *gfx942();
    none.has &= ~(uint32_t)DMA_GEN_RECT;
    reason = dma_rect_unfit(&none, &r, &e);
    ck_assert_str_eq(reason, "this generation has no strided copy");
}
END_TEST

/* What the engine would do with the packet; addresses are offsets into the arenas. */
static void play(const sdma_packet_t *d, unsigned char *dst, const unsigned char *src)
{
    uint64_t size = UINT64_C(1) << d->element;

    ck_assert(d->dst % 4 == 0 && d->src % 4 == 0 && d->depth == 1 && !d->src_z && !d->dst_z);
    ck_assert(d->dst_pitch * size % 4 == 0 && d->src_pitch * size % 4 == 0);
    ck_assert(d->dst_slice >= d->dst_pitch * d->height && d->src_slice >= d->src_pitch * d->height);
    for (uint64_t y = 0; y < d->height; y++) {
        uint64_t to = d->dst + ((d->dst_y + y) * d->dst_pitch + d->dst_x) * size;
        uint64_t from = d->src + ((d->src_y + y) * d->src_pitch + d->src_x) * size;
        memcpy(dst + to, src + from, d->width * size);
    }
}

START_TEST(moves_the_bytes)
{
    static unsigned char src[ARENA], got[ARENA], want[ARENA];
    int played = 0;

    srandom((unsigned)unit_seed());
    for (int i = 0; i < ROUNDS; i++) {
        long align = 1L << random() % 5;
        uint64_t row = (uint64_t)((random() % (256 / align) + 1) * align), rows = (uint64_t)(random() % 8 + 1);
        dma_rect_t r =
            rect((uint64_t)(random() % 64 / align * align), row + (uint64_t)(random() % 64 * align),
                 (uint64_t)(random() % 64 / align * align), row + (uint64_t)(random() % 64 * align), row, rows);
        uint32_t p[DMA_PACKET_RECT_DWORDS], e;
        sdma_packet_t d;
        const char *why;

        if (r.dst_pitch * rows + 64 > ARENA || r.src_pitch * rows + 64 > ARENA) {
            continue;
        }
        if (dma_rect_unfit(gfx942(), &r, &e)) {
            ck_assert((r.dst_pitch | r.src_pitch) % 4);
            continue;
        }
        for (size_t k = 0; k < ARENA; k++) {
            src[k] = (unsigned char)random();
            got[k] = want[k] = 0;
        }
        for (uint64_t y = 0; y < rows; y++) {
            memcpy(want + r.dst + y * r.dst_pitch, src + r.src + y * r.src_pitch, row);
        }
        ck_assert_uint_eq(dma_packet_rect(p, &r, e), DMA_PACKET_RECT_DWORDS);
        ck_assert_uint_eq(sdma_decode(p, DMA_PACKET_RECT_DWORDS, &d, &why), DMA_PACKET_RECT_DWORDS);
        ck_assert_int_eq(d.kind, SDMA_RECT);
        play(&d, got, src);
        ck_assert_mem_eq(got, want, ARENA);
        played++;
    }
    ck_assert_int_gt(played, ROUNDS / 4);
}
END_TEST

/* The largest of every field at once: nothing runs into its neighbour. */
START_TEST(full_fields)
{
    dma_rect_t r = rect(0xfffffffffff0, 8192 * KIB, 0xeeeeeeeeeee0, 4096 * KIB, 256 * KIB, 512);
    uint32_t p[DMA_PACKET_RECT_DWORDS], e = 0;
    sdma_packet_t d;
    const char *why;

    ck_assert_ptr_null(dma_rect_unfit(gfx942(), &r, &e));
    dma_packet_rect(p, &r, e);
    ck_assert_uint_eq(sdma_decode(p, DMA_PACKET_RECT_DWORDS, &d, &why), DMA_PACKET_RECT_DWORDS);
    ck_assert(d.element == 4 && d.dst == r.dst && d.src == r.src && d.width == 16384 && d.height == 512);
    ck_assert(d.dst_pitch == 1 << 19 && d.src_pitch == 1 << 18 && d.dst_slice == 1 << 28 && d.src_slice == 1 << 27);
    r = rect(3, 32 * KIB, 2, 16 * KIB, 16 * KIB, 16384);
    ck_assert_ptr_nonnull(dma_rect_unfit(gfx942(), &r, &e)); /* 2^29 elements from plane to plane */
    r = rect(3, 16 * KIB, 2, 16 * KIB, 8 * KIB + 1, 16384);
    ck_assert_ptr_nonnull(dma_rect_unfit(gfx942(), &r, &e)); /* more than 128 MiB, which may hang an engine */
    r = rect(3, 16 * KIB, 2, 16 * KIB, 8 * KIB, 16384);
    ck_assert_ptr_null(dma_rect_unfit(gfx942(), &r, &e));
    dma_packet_rect(p, &r, e);
    ck_assert_uint_eq(sdma_decode(p, DMA_PACKET_RECT_DWORDS, &d, &why), DMA_PACKET_RECT_DWORDS);
    ck_assert(d.element == 0 && d.dst == 0 && d.src == 0 && d.dst_x == 3 && d.src_x == 2);
    ck_assert(d.width == 8192 && d.height == 16384 && d.dst_slice == 1 << 28);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma rect");

    unit_test(suite, elements, 5);
    unit_test(suite, limits, 5);
    unit_test(suite, moves_the_bytes, 20);
    unit_test(suite, full_fields, 5);
    return unit_main(suite);
}
