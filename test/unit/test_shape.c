/* Shapes of blocks: which blocks have one, and that a copy between two shapes is cut into rectangles that move
 * every byte once. The same for the rows of any blocks, also of irregular datatypes. */
#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "device/rows.h"
#include "gpu/shape.h"
#include "libstrips.h"
#include "libunit.h"

#define ROUNDS 2000
#define ARENA  (1 << 15)

static uint64_t below(uint64_t n)
{
    return (uint64_t)random() % n;
}

static dma_rows_t layout(uint64_t row, unsigned levels, const dma_level_t *level)
{
    dma_rows_t l = {.row = row, .levels = levels};

    for (unsigned i = 0; i < levels; i++) {
        l.level[i] = level[i];
    }
    return l;
}

static bool is(const dma_shape_t *s, uint64_t row, uint64_t rows, uint64_t pitch, uint64_t step)
{
    return s->row == row && s->rows == rows && s->pitch == pitch && s->step == step;
}

START_TEST(vectors)
{
    dma_rows_t l = layout(8, 1, (dma_level_t[]){{4, 20}});
    dma_shape_t s;

    ck_assert(dma_shape_from_rows(&l, 1, 68, &s) && is(&s, 8, 0, 20, 0));
    ck_assert(dma_shape_from_rows(&l, 3, 80, &s) && is(&s, 8, 0, 20, 0));  /* the extent is longer than the data */
    ck_assert(dma_shape_from_rows(&l, 3, 68, &s) && is(&s, 8, 4, 20, 68)); /* planes */
    ck_assert(dma_shape_from_rows(&l, 2, 8, &s) && is(&s, 8, 4, 20, 8));   /* planes beside each other */
    ck_assert(!dma_shape_from_rows(&l, 2, 7, &s) && !dma_shape_from_rows(&l, 2, 0, &s) &&
              !dma_shape_from_rows(&l, 2, -80, &s));
}
END_TEST

START_TEST(dense)
{
    dma_rows_t l = layout(8, 0, NULL), two = layout(8, 2, (dma_level_t[]){{3, 8}, {5, 24}});
    dma_shape_t s;

    ck_assert(dma_shape_from_rows(&l, 1, 100, &s) && s.row == 0);
    ck_assert(dma_shape_from_rows(&l, 9, 8, &s) && s.row == 0);
    ck_assert(dma_shape_from_rows(&l, 9, 12, &s) && is(&s, 8, 0, 12, 0));
    ck_assert(dma_shape_from_rows(&two, 9, 120, &s) && s.row == 0);
    ck_assert(dma_shape_from_rows(&two, 9, 130, &s) && is(&s, 120, 0, 130, 0));
}
END_TEST

START_TEST(levels)
{
    dma_rows_t l = layout(4, 2, (dma_level_t[]){{3, 10}, {5, 100}});
    dma_rows_t backwards = layout(4, 1, (dma_level_t[]){{3, -10}}), over = layout(4, 1, (dma_level_t[]){{3, 3}});
    dma_rows_t nothing = layout(0, 0, NULL);
    dma_shape_t s;

    ck_assert(dma_shape_from_rows(&l, 1, 7, &s) && is(&s, 4, 3, 10, 100));
    ck_assert(dma_shape_from_rows(&l, 2, 500, &s) && is(&s, 4, 3, 10, 100));
    ck_assert(!dma_shape_from_rows(&l, 2, 501, &s)); /* three levels */
    ck_assert(!dma_shape_from_rows(&backwards, 1, 4, &s) && !dma_shape_from_rows(&over, 1, 4, &s));
    ck_assert(!dma_shape_from_rows(&nothing, 1, 4, &s));
}
END_TEST

START_TEST(spans)
{
    dma_shape_t s = {.row = 4, .rows = 3, .pitch = 10, .step = 100}, flat = {.row = 4, .pitch = 10};
    dma_shape_t far = {.row = 1, .pitch = UINT64_MAX / 3};

    ck_assert_uint_eq(dma_shape_span(&s, 0), 0);
    ck_assert_uint_eq(dma_shape_span(&s, 12), 24);
    ck_assert_uint_eq(dma_shape_span(&s, 36), 224);
    ck_assert_uint_eq(dma_shape_span(&flat, 36), 84);
    ck_assert_uint_eq(dma_shape_span(&(dma_shape_t){0}, 36), 36);
    ck_assert_uint_eq(dma_shape_span(&far, 2), UINT64_MAX / 3 + 1);
    ck_assert_uint_eq(dma_shape_span(&far, 3), UINT64_MAX);
    ck_assert_uint_eq(dma_shape_span(&far, 9), UINT64_MAX);
    ck_assert(dma_shape_valid(&s) && dma_shape_valid(&flat) && dma_shape_valid(&(dma_shape_t){0}));
    s.step = 3;
    flat.pitch = 3;
    ck_assert(!dma_shape_valid(&s) && !dma_shape_valid(&flat));
}
END_TEST

/* ---- cutting ---- */

static dma_shape_t draw(uint64_t bytes)
{
    dma_shape_t s = {.row = 1 + below(below(2) ? 16 : 200)};

    if (!below(5)) {
        return (dma_shape_t){0};
    }
    s.pitch = s.row + below(30);
    if (below(2)) {
        s.rows = 1 + below(8);
        if (below(3)) {
            s.step = (s.rows - 1) * s.pitch + s.row + below(40);
        } else { /* planes beside each other */
            s.step = s.row + below(3);
            s.pitch = s.step * (bytes / (s.row * s.rows) + 2);
        }
    }
    return s;
}

/* By the definition: the place of byte x of a block. */
static uint64_t where(const dma_shape_t *s, uint64_t x)
{
    uint64_t row = s->row ? x / s->row : 0, rows = s->rows ? s->rows : UINT64_MAX;

    return s->row ? row / rows * s->step + row % rows * s->pitch + x % s->row : x;
}

static void move(const dma_rect_t *r, unsigned char *dst, const unsigned char *src)
{
    for (uint64_t row = 0; row < r->rows; row++) {
        for (uint64_t k = 0; k < r->row_bytes; k++) {
            unsigned char *to = dst + r->dst + row * r->dst_pitch + k;

            if (to >= dst + ARENA || r->src + row * r->src_pitch + k >= ARENA || *to) {
                ck_abort_msg("out of the blocks, or for the second time");
            }
            *to = src[r->src + row * r->src_pitch + k];
        }
    }
}

START_TEST(moves_every_byte_once)
{
    static unsigned char src[ARENA], got[ARENA], want[ARENA];
    int done = 0;

    srandom((unsigned)unit_seed());
    for (int i = 0; i < ARENA; i++) {
        src[i] = (unsigned char)(1 + i % 255);
    }
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t bytes = 1 + below(3000), from = below(3) ? 0 : below(bytes),
                 to = below(3) ? bytes : from + below(bytes - from) + 1, n = 0;
        dma_location_t d = {.addr = below(64), .skip = from, .shape = draw(bytes)}, s = d;
        dma_cut_t cut;
        dma_rect_t r;

        s.shape = draw(bytes);
        s.addr = below(64);
        if (d.addr + dma_shape_span(&d.shape, bytes) > ARENA || s.addr + dma_shape_span(&s.shape, bytes) > ARENA) {
            continue;
        }
        memset(got, 0, sizeof(got));
        memset(want, 0, sizeof(want));
        for (uint64_t x = from; x < to; x++) {
            want[d.addr + where(&d.shape, x)] = src[s.addr + where(&s.shape, x)];
        }
        dma_cut_begin(&cut, &d, &s, to - from);
        while (dma_cut_next(&cut, &r)) {
            ck_assert(r.rows && r.row_bytes && r.dst_pitch >= r.row_bytes && r.src_pitch >= r.row_bytes);
            move(&r, got, src);
            n++;
        }
        ck_assert(!memcmp(got, want, ARENA));
        /* the count may be a guess, if it is not far off */
        ck_assert(n <= 8 * dma_cut_count(&d, &s, to - from) + 8);
        done++;
    }
    ck_assert_int_gt(done, ROUNDS / 2);
}
END_TEST

static uint64_t rects(dma_shape_t dst, dma_shape_t src, uint64_t bytes)
{
    dma_location_t d = {.shape = dst}, s = {.shape = src};
    dma_cut_t cut;
    dma_rect_t r;
    uint64_t n = 0;

    for (dma_cut_begin(&cut, &d, &s, bytes); dma_cut_next(&cut, &r);) {
        n++;
    }
    return n;
}

START_TEST(few)
{
    dma_shape_t dense = {0}, r64 = {.row = 64, .pitch = 100}, r96 = {.row = 96, .pitch = 100};
    dma_shape_t column = {.row = 8, .rows = 100, .pitch = 800, .step = 8};
    dma_shape_t pairs = {.row = 8, .rows = 2, .pitch = 20, .step = 100};

    ck_assert_uint_eq(rects(dense, dense, 1 << 20), 1);
    ck_assert_uint_eq(rects(dense, r64, 6400), 1);
    ck_assert_uint_eq(rects(r64, dense, 6400), 1);
    ck_assert_uint_eq(rects(r64, r64, 6400), 1);
    ck_assert_uint_eq(rects(r64, r96, 19200), 4);
    ck_assert_uint_eq(rects(dense, column, 80000), 100);
    ck_assert_uint_eq(rects(column, column, 80000), 100);
    ck_assert_uint_eq(rects(dense, pairs, 16000), 2); /* every first row, every second row */
    ck_assert_uint_eq(rects(pairs, dense, 16000), 2);
    ck_assert_uint_eq(rects(pairs, r64, 16000), 8);
}
END_TEST

START_TEST(never_too_many_to_count)
{
    dma_shape_t a = {.row = (UINT64_C(1) << 40) - 1, .pitch = UINT64_C(1) << 40},
                b = {.row = (UINT64_C(1) << 41) - 3, .pitch = UINT64_C(1) << 41};

    ck_assert_uint_le(rects(a, b, UINT64_C(1) << 44), 40);
}
END_TEST

/* ---- rows of any blocks ---- */

enum { MIDDLE = ARENA / 2 };

/* Rows of an element at random distances that do not overlap: forwards, backwards, in front of its address, and packed in turns with
 * those of another strip. */
static strips_t draw_strips(void)
{
    strips_t t = {.n = 1 + (unsigned)below(3)};
    ptrdiff_t at = below(2) ? -(ptrdiff_t)below(300) : 0;
    uint64_t packed = 0;
    bool in_turns = t.n == 2 && below(2);

    for (unsigned k = 0; k < t.n; k++) {
        dma_strip_t *s = &t.strips[k];

        s->bytes = 1 + below(30);
        s->n = in_turns && k ? t.strips[0].n : 1 + (below(2) ? below(6) : 0);
        s->stride = (ptrdiff_t)(s->bytes + (below(3) ? below(20) : 0));
        s->pitch = s->bytes;
        s->packed = packed;
        s->at = at + (below(2) ? (ptrdiff_t)below(10) : 0);
        at = s->at + (ptrdiff_t)s->n * s->stride;
        packed += s->n * s->bytes;
        if (!below(4)) {
            s->at += (ptrdiff_t)(s->n - 1) * s->stride;
            s->stride = -s->stride;
        }
    }
    if (in_turns) {
        t.strips[0].pitch = t.strips[1].pitch = t.strips[0].bytes + t.strips[1].bytes;
        t.strips[1].packed = t.strips[0].bytes;
    }
    t.extent = (below(4) ? 1 : -1) * (1000 + (ptrdiff_t)below(50));
    return t;
}

typedef struct listed {
    unsigned char *got, *src;
    uint64_t n;
} listed_t;

static dma_status_t list(void *arg, const dma_rect_t *r)
{
    listed_t *l = arg;

    ck_assert(r->rows && r->row_bytes);
    move(r, l->got, l->src);
    l->n++;
    return DMA_OK;
}

/* By the definition: the place of byte x of elements. */
static uint64_t place(const strips_t *t, uint64_t size, uint64_t x)
{
    for (unsigned k = 0; k < t->n; k++) {
        const dma_strip_t *s = &t->strips[k];
        uint64_t in = x % size - s->packed;

        if (x % size >= s->packed && in / s->pitch < s->n && in % s->pitch < s->bytes) {
            return (x / size) * (uint64_t)t->extent + (uint64_t)s->at + in / s->pitch * (uint64_t)s->stride +
                   in % s->pitch;
        }
    }
    abort();
}

START_TEST(rows_of_any_type)
{
    static unsigned char src[ARENA], got[ARENA], want[ARENA];
    dma_host_t host = strips_host();

    srandom((unsigned)unit_seed());
    for (int i = 0; i < ARENA; i++) {
        src[i] = (unsigned char)(1 + i % 255);
    }
    for (int i = 0; i < ROUNDS; i++) {
        strips_t t = draw_strips();
        uint64_t size = strips_size(&t), bytes = size * (1 + below(8)), from = below(3) ? below(bytes) : 0,
                 to = below(3) ? from + below(bytes - from) + 1 : bytes;
        dma_side_t side = {.type = &t, .size = size, .extent = t.extent};
        listed_t l = {.got = got, .src = src};
        dma_rects_t rects = {.host = &host, .visit = list, .arg = &l, .backwards = below(2)};
        dma_place_t user = {.addr = MIDDLE, .skip = from, .type = &side},
                    packed = {.addr = below(64), .skip = below(9)};
        bool packs = below(2), same = !packs && !below(3);

        memset(got, 0, sizeof(got));
        memset(want, 0, sizeof(want));
        for (uint64_t x = from; x < to; x++) {
            uint64_t u = MIDDLE + place(&t, size, x), p = same ? u : packed.addr + packed.skip + x - from;

            want[packs ? p : u] = src[packs ? u : p];
        }
        ck_assert_int_eq(dma_rects_list(&rects, packs ? &packed : &user, packs || same ? &user : &packed, to - from),
                         DMA_OK);
        ck_assert_msg(!memcmp(got, want, ARENA), "round %d", i);
    }
}
END_TEST

/* How many rectangles blocks are that are listed one after the other. */
static uint64_t listed(const strips_t *t, uint64_t elements, bool backwards)
{
    static unsigned char src[ARENA], got[ARENA];
    dma_host_t host = strips_host();
    listed_t l = {.got = got, .src = src};
    dma_rects_t rects = {.host = &host, .visit = list, .arg = &l, .backwards = backwards};
    dma_side_t side = {.type = (void *)(uintptr_t)t, .size = strips_size(t), .extent = t->extent};
    dma_place_t user = {.addr = MIDDLE, .type = &side}, packed = {.addr = 0};

    memset(got, 0, sizeof(got));
    ck_assert_int_eq(dma_rects_list(&rects, &user, &packed, elements * side.size), DMA_OK);
    return l.n;
}

START_TEST(few_of_any_type)
{
    static const strips_t rows = {.extent = 100, .n = 2, .strips = {{0, 0, 4, 5, 10, 4}, {60, 20, 8, 1, 0, 0}}};
    static const strips_t reverse = {.extent = -100, .n = 1, .strips = {{0, 0, 4, 5, 10, 4}}};
    static const strips_t run = {
        .extent = 90, .n = 3, .strips = {{0, 0, 4, 1, 0, 0}, {10, 4, 4, 1, 0, 0}, {20, 8, 4, 1, 0, 0}}};
    static unsigned char src[ARENA], got[ARENA];
    listed_t l = {.got = got, .src = src};
    dma_rects_t rects = {.visit = list, .arg = &l};

    ck_assert_uint_eq(listed(&rows, 3, false), 4); /* five rows of each element, and the last row of all elements */
    ck_assert_uint_eq(listed(&rows, 9, false), 6); /* each of the six rows of all elements */
    ck_assert_uint_eq(listed(&reverse, 9, false), 9);
    ck_assert_uint_eq(listed(&reverse, 9, true), 5);
    ck_assert_uint_eq(listed(&run, 1, false), 1); /* single rows at equal distances */
    /* blocks that touch are one, blocks at equal distances are not */
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t at[] = {0, 10, 30, 50};
        dma_place_t block = {.addr = at[i]};

        ck_assert_int_eq(dma_rects_add(&rects, &block, &block, 10), DMA_OK);
    }
    ck_assert_int_eq(dma_rects_end(&rects), DMA_OK);
    ck_assert_uint_eq(l.n, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("shape");

    unit_test(s, vectors, 5);
    unit_test(s, dense, 5);
    unit_test(s, levels, 5);
    unit_test(s, spans, 5);
    unit_test(s, moves_every_byte_once, 30);
    unit_test(s, few, 5);
    unit_test(s, never_too_many_to_count, 5);
    unit_test(s, rows_of_any_type, 30);
    unit_test(s, few_of_any_type, 5);
    return unit_main(s);
}
