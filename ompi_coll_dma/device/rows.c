/* Rectangles of the rows of blocks: see rows.h. */
#include "device/rows.h"

#include <string.h>

/* ---- rectangles that continue each other ---- */

static bool fits(uint64_t pitch, uint64_t bytes)
{
    return pitch >= bytes && pitch <= DMA_GPU_MAX_PITCH;
}

/* Is the pitch that of a rectangle, or if the rectangle is a single row, any? */
static bool has_pitch(const dma_rect_t *r, uint64_t dst, uint64_t src)
{
    return r->rows == 1 || (r->dst_pitch == dst && r->src_pitch == src);
}

static bool touch(dma_rect_t *open, const dma_rect_t *next)
{
    if (open->rows != 1 || next->rows != 1 || next->dst != open->dst + open->row_bytes ||
        next->src != open->src + open->row_bytes) {
        return false;
    }
    open->row_bytes += next->row_bytes;
    return true;
}

/* Are the rows of the next rectangle the next rows of the open one? */
static bool follow(dma_rect_t *open, const dma_rect_t *next)
{
    uint64_t dst = (next->dst - open->dst) / open->rows, src = (next->src - open->src) / open->rows;

    if (next->row_bytes != open->row_bytes || !fits(dst, open->row_bytes) || !fits(src, open->row_bytes) ||
        next->dst != open->dst + dst * open->rows || next->src != open->src + src * open->rows ||
        !has_pitch(open, dst, src) || !has_pitch(next, dst, src)) {
        return false;
    }
    open->dst_pitch = dst;
    open->src_pitch = src;
    open->rows += next->rows;
    return true;
}

dma_status_t dma_rects_end(dma_rects_t *rects)
{
    dma_rect_t rect = rects->open;

    rects->open.rows = 0;
    return rect.rows ? rects->visit(rects->arg, &rect) : DMA_OK;
}

/* `at_distance`: rows need not touch to be one rectangle. */
static dma_status_t put(dma_rects_t *rects, const dma_rect_t *rect, bool at_distance)
{
    dma_rect_t *open = &rects->open;
    dma_status_t status;

    if (open->rows && (touch(open, rect) || (at_distance && follow(open, rect)))) {
        return DMA_OK;
    }
    if (open->rows == 1 && rect->rows > 1) {
        return rects->visit(rects->arg, rect); /* a later row may continue the open one */
    }
    status = dma_rects_end(rects);
    *open = *rect;
    return status;
}

/* ---- irregular datatypes ---- */

/* A copy of elements. */
typedef struct elements {
    dma_rects_t *rects;
    const dma_side_t *type;
    const dma_place_t *dst, *src;
    uint64_t first, end; /* numbers of bytes in the block */
} elements_t;

/* Part of a strip: from byte `cut` of a row on, `bytes` bytes of `rows` rows. `along`: they are the same row of elements that
 * follow each other. */
typedef struct part {
    uint64_t element, row, cut, bytes, rows;
    bool along;
} part_t;

/* Where the part begins on a side. */
static uint64_t address(const elements_t *e, const dma_place_t *place, const dma_strip_t *s, const part_t *part)
{
    if (!place->type) {
        return place->addr + part->element * e->type->size + s->packed + part->row * s->pitch + part->cut - e->first +
               place->skip;
    }
    return place->addr + part->element * (uint64_t)e->type->extent + (uint64_t)s->at + part->row * (uint64_t)s->stride +
           part->cut;
}

static uint64_t pitch(const elements_t *e, const dma_place_t *place, const dma_strip_t *s, bool along)
{
    if (!place->type) {
        return along ? e->type->size : s->pitch;
    }
    return (uint64_t)(along ? e->type->extent : s->stride);
}

/* One row at a time. */
static dma_status_t visit_rows(const dma_rects_t *rects, const dma_rect_t *rect)
{
    dma_rect_t row = *rect;
    dma_status_t status = DMA_OK;

    row.rows = 1;
    for (uint64_t i = 0; status == DMA_OK && i < rect->rows; i++) {
        status = rects->visit(rects->arg, &row);
        row.dst += row.dst_pitch;
        row.src += row.src_pitch;
    }
    return status;
}

static dma_status_t put_part(const elements_t *e, const dma_strip_t *s, const part_t *part)
{
    dma_rect_t rect = {.dst = address(e, e->dst, s, part),
                       .src = address(e, e->src, s, part),
                       .dst_pitch = pitch(e, e->dst, s, part->along),
                       .src_pitch = pitch(e, e->src, s, part->along),
                       .row_bytes = part->bytes,
                       .rows = part->rows};

    return e->type->scattered ? visit_rows(e->rects, &rect) : put(e->rects, &rect, true);
}

/* The rows of a strip in one element: the whole ones together, and at both ends of the copy the part of a row. */
static dma_status_t put_element(const elements_t *e, const dma_strip_t *s, uint64_t element)
{
    uint64_t byte = element * e->type->size + s->packed;
    dma_status_t status = DMA_OK;
    part_t p = {.element = element, .row = e->first > byte ? (e->first - byte) / s->pitch : 0};

    for (; status == DMA_OK && p.row < s->n && byte + p.row * s->pitch < e->end; p.row += p.rows) {
        uint64_t low = byte + p.row * s->pitch, left = e->end - low;

        p.cut = low < e->first ? e->first - low : 0;
        p.rows = 1;
        if (!p.cut && left >= s->bytes) {
            uint64_t whole = (left - s->bytes) / s->pitch + 1;

            p.rows = whole < s->n - p.row ? whole : s->n - p.row;
        }
        p.bytes = left < s->bytes ? left : s->bytes;
        if (p.cut < p.bytes) {
            p.bytes -= p.cut;
            status = put_part(e, s, &p);
        }
    }
    return status;
}

/* How many copies a rectangle takes. */
static uint64_t cost(const dma_rects_t *rects, ptrdiff_t distance, uint64_t bytes, uint64_t rows)
{
    bool strided = distance >= (ptrdiff_t)bytes || (rects->backwards && -distance >= (ptrdiff_t)bytes);

    return strided ? 1 : rows;
}

static dma_status_t put_strip(void *arg, const dma_strip_t *strip)
{
    const elements_t *e = arg;
    uint64_t size = e->type->size, k = e->first / size;
    uint64_t whole = (e->first + size - 1) / size, end = e->end / size; /* elements that are copied completely */
    uint64_t n = end > whole ? end - whole : 0;
    dma_status_t status = DMA_OK;
    dma_strip_t s = *strip;
    bool along;

    if (!s.n || !s.bytes) {
        return DMA_OK;
    }
    if (s.n == 1 || (s.stride == (ptrdiff_t)s.bytes && s.pitch == s.bytes)) { /* rows that touch are one */
        s.pitch = s.bytes *= s.n;
        s.n = 1;
    }
    along = s.n * cost(e->rects, e->type->extent, s.bytes, n) < n * cost(e->rects, s.stride, s.bytes, s.n);
    for (; status == DMA_OK && k * size < e->end; k++) {
        if (!along || k != whole) {
            status = put_element(e, &s, k);
            continue;
        }
        for (uint64_t row = 0; status == DMA_OK && row < s.n; row++) {
            status = put_part(e, &s, &(part_t){.element = k, .row = row, .bytes = s.bytes, .rows = n, .along = true});
        }
        k = end - 1;
    }
    return status;
}

/* ---- all of them ---- */

static dma_location_t location(const dma_place_t *p)
{
    return (dma_location_t){.addr = p->addr, .skip = p->skip, .shape = p->shape ? *p->shape : (dma_shape_t){0}};
}

dma_status_t dma_rects_add(dma_rects_t *rects, const dma_place_t *dst, const dma_place_t *src, uint64_t bytes)
{
    const dma_side_t *type = dst->type ? dst->type : src->type;
    const dma_location_t to = location(dst), from = location(src);
    dma_status_t status = DMA_OK;
    dma_cut_t cut;
    dma_rect_t r;

    if (type) {
        uint64_t first = dst->type ? dst->skip : src->skip;
        elements_t e = {.rects = rects, .type = type, .dst = dst, .src = src, .first = first, .end = first + bytes};

        return rects->host->type_strips(type->type, put_strip, &e);
    }
    dma_cut_begin(&cut, &to, &from, bytes);
    while (status == DMA_OK && dma_cut_next(&cut, &r)) {
        status = put(rects, &r, false);
    }
    return status;
}

dma_status_t dma_rects_list(dma_rects_t *rects, const dma_place_t *dst, const dma_place_t *src, uint64_t bytes)
{
    dma_status_t status = dma_rects_add(rects, dst, src, bytes);

    return status == DMA_OK ? dma_rects_end(rects) : status;
}

/* ---- visits that copy ---- */

dma_status_t dma_rect_start(void *arg, const dma_rect_t *rect)
{
    const dma_rect_stream_t *s = arg;

    return dma_gpu_copy_rect(s->rt, s->stream, rect);
}

dma_status_t dma_rect_move(void *arg, const dma_rect_t *r)
{
    (void)arg;
    for (uint64_t row = 0; row < r->rows; row++) {
        memcpy((char *)(uintptr_t)(r->dst + row * r->dst_pitch), (char *)(uintptr_t)(r->src + row * r->src_pitch),
               r->row_bytes);
    }
    return DMA_OK;
}
