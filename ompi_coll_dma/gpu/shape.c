/* Shapes and rectangles: see shape.h. */
#include "gpu/shape.h"

#define ALL UINT64_MAX /* n of a level: as many elements as the block has */

/* ---- shapes ---- */

bool dma_shape_from_rows(const dma_rows_t *layout, uint64_t count, ptrdiff_t extent, dma_shape_t *shape)
{
    dma_level_t level[2] = {{0}};
    uint64_t row = layout->row;
    unsigned n = 0;

    for (unsigned i = 0; i <= layout->levels; i++) {
        dma_level_t next = i < layout->levels ? layout->level[i] : (dma_level_t){count > 1 ? ALL : 1, extent};

        if (next.n == 1) {
            continue;
        }
        if (next.stride <= 0 || !next.n) {
            return false;
        }
        if (n == 0 && (uint64_t)next.stride == row && next.n != ALL) {
            row *= next.n; /* contiguous rows merge into one row */
        } else if (n && (uint64_t)next.stride == level[n - 1].n * (uint64_t)level[n - 1].stride) {
            level[n - 1].n = next.n == ALL ? ALL : next.n * level[n - 1].n;
        } else if (n < 2 && (uint64_t)next.stride >= row) {
            level[n++] = next;
        } else {
            return false;
        }
    }
    *shape = (dma_shape_t){0};
    if (n && ((uint64_t)level[0].stride != row || n == 2)) {
        *shape = (dma_shape_t){.row = row, .pitch = (uint64_t)level[0].stride};
    }
    if (n == 2) {
        shape->rows = level[0].n;
        shape->step = (uint64_t)level[1].stride;
    }
    return row > 0;
}

bool dma_shape_valid(const dma_shape_t *shape)
{
    return !shape->row || (shape->pitch >= shape->row && (!shape->rows || shape->step >= shape->row));
}

uint64_t dma_shape_span(const dma_shape_t *shape, uint64_t bytes)
{
    uint64_t rows, planes = 1, far, more;

    if (!shape->row || !bytes) {
        return bytes;
    }
    rows = bytes / shape->row + (bytes % shape->row != 0);
    if (shape->rows) {
        planes = rows / shape->rows + (rows % shape->rows != 0);
        rows = rows < shape->rows ? rows : shape->rows;
    }
    if (__builtin_mul_overflow(rows - 1, shape->pitch, &far) ||
        __builtin_mul_overflow(planes - 1, shape->step, &more) || __builtin_add_overflow(far, more, &far) ||
        __builtin_add_overflow(far, shape->row, &far) || far > INT64_MAX) {
        return UINT64_MAX;
    }
    return far;
}

/* Bytes of a plane. For a shape of one plane, bytes of a row: the smallest part that repeats. 0: no shape. */
static uint64_t plane_bytes(const dma_shape_t *shape)
{
    return shape->rows ? shape->row * shape->rows : shape->row;
}

/* ---- cutting ---- */

/* The address of byte x of a copy. */
static uint64_t address(const dma_location_t *p, uint64_t x)
{
    const dma_shape_t *s = &p->shape;
    uint64_t row, in_row;

    x += p->skip;
    if (!s->row) {
        return p->addr + x;
    }
    row = x / s->row;
    in_row = x % s->row;
    if (!s->rows) {
        return p->addr + row * s->pitch + in_row;
    }
    return p->addr + row / s->rows * s->step + row % s->rows * s->pitch + in_row;
}

static uint64_t row_remaining(const dma_location_t *p, uint64_t x)
{
    return p->shape.row ? p->shape.row - (p->skip + x) % p->shape.row : UINT64_MAX;
}

static uint64_t plane_remaining(const dma_location_t *p, uint64_t x)
{
    uint64_t bytes = plane_bytes(&p->shape);

    return p->shape.rows ? bytes - (p->skip + x) % bytes : UINT64_MAX;
}

static uint64_t min3(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t smallest = a < b ? a : b;

    return smallest < c ? smallest : c;
}

/* The least common multiple, where 0 divides everything; UINT64_MAX if it does not fit into 64 bits. */
static uint64_t common_multiple(uint64_t a, uint64_t b)
{
    uint64_t x = a, y = b, product;

    if (!a || !b) {
        return a + b;
    }
    while (y) {
        uint64_t rest = x % y;

        x = y;
        y = rest;
    }
    return __builtin_mul_overflow(a / x, b, &product) ? UINT64_MAX : product;
}

/* An estimate of how many rows of both sides begin in `bytes` bytes; at least 1. */
static uint64_t count_rows(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    uint64_t n = (dst->shape.row ? bytes / dst->shape.row : 0) + (src->shape.row ? bytes / src->shape.row : 0);

    return n ? n : 1;
}

/* Rectangles of a copy that is cut at the ends of planes. The rows of a rectangle follow each other in one plane. */
static uint64_t count_by_rows(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    uint64_t period = common_multiple(dst->shape.row, src->shape.row);
    uint64_t parts = 1 + (dst->shape.rows ? bytes / plane_bytes(&dst->shape) : 0) +
                     (src->shape.rows ? bytes / plane_bytes(&src->shape) : 0);
    uint64_t part = bytes / parts;

    return parts * count_rows(dst, src, period < part ? period : part);
}

/* Rectangles of a copy that is cut at the ends of rows only. The rows of a rectangle are the same row of consecutive
 * planes. */
static uint64_t count_by_planes(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    uint64_t period = common_multiple(plane_bytes(&dst->shape), plane_bytes(&src->shape));

    if (!(dst->shape.rows || src->shape.rows) || period > bytes / 2) {
        return UINT64_MAX;
    }
    return count_rows(dst, src, period) + count_by_rows(dst, src, bytes % period);
}

uint64_t dma_cut_count(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    uint64_t rows = count_by_rows(dst, src, bytes), planes = count_by_planes(dst, src, bytes);

    return rows < planes ? rows : planes;
}

void dma_cut_begin(dma_cut_t *cut, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    *cut = (dma_cut_t){.dst = *dst,
                       .src = *src,
                       .end = bytes,
                       .by_planes = count_by_planes(dst, src, bytes) < count_by_rows(dst, src, bytes)};
}

/* Finds the period at `at`, and how often the pattern of both sides repeats from there. */
static void next_period(dma_cut_t *cut)
{
    uint64_t left = cut->end - cut->at;

    if (cut->by_planes) {
        cut->period = common_multiple(plane_bytes(&cut->dst.shape), plane_bytes(&cut->src.shape));
        cut->by_planes = cut->period <= left;
    }
    if (!cut->by_planes) {
        left = min3(left, plane_remaining(&cut->dst, cut->at), plane_remaining(&cut->src, cut->at));
        cut->period = common_multiple(cut->dst.shape.row, cut->src.shape.row);
    }
    if (!cut->period || cut->period > left) {
        cut->period = left;
    }
    cut->times = left / cut->period;
    cut->piece = 0;
}

/* The distance from a byte of one period to the same byte of the next period. */
static uint64_t pitch(const dma_cut_t *cut, const dma_shape_t *s)
{
    if (!s->row) {
        return cut->period;
    }
    if (s->rows && cut->by_planes) {
        return cut->period / plane_bytes(s) * s->step;
    }
    return cut->period / s->row * s->pitch;
}

bool dma_cut_next(dma_cut_t *cut, dma_rect_t *rect)
{
    uint64_t at, bytes;

    if (cut->at == cut->end) {
        return false;
    }
    if (!cut->times) {
        next_period(cut);
    }
    at = cut->at + cut->piece;
    bytes = min3(cut->period - cut->piece, row_remaining(&cut->dst, at), row_remaining(&cut->src, at));
    *rect = (dma_rect_t){.dst = address(&cut->dst, at),
                         .src = address(&cut->src, at),
                         .dst_pitch = cut->times > 1 ? pitch(cut, &cut->dst.shape) : bytes,
                         .src_pitch = cut->times > 1 ? pitch(cut, &cut->src.shape) : bytes,
                         .row_bytes = bytes,
                         .rows = cut->times};
    if (rect->dst_pitch == bytes && rect->src_pitch == bytes) {
        rect->dst_pitch = rect->src_pitch = rect->row_bytes = bytes * cut->times;
        rect->rows = 1;
    }
    cut->piece += bytes;
    if (cut->piece == cut->period) {
        cut->at += cut->period * cut->times;
        cut->times = 0;
    }
    return true;
}
