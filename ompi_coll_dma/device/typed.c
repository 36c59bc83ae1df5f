/*
 * Blocks of irregular datatypes, packed into and unpacked from scratch memory on the device.
 *
 * The host services list the strips of an element: rows of equal length at a regular distance. A strip is one strided copy, or
 * each of its rows is one strided copy of that row of all elements, whichever makes fewer copies (as in write.c). Rows that are alone
 * are put together where they touch, or are equally long and equally far apart: an indexed datatype often has runs of such rows.
 * Any other row is one copy. Nothing waits for the copies here: they are on the stream of the scratch memory. Of a call in pieces,
 * any part of a block can be copied: rows are cut at its ends.
 *
 * A copy inside a device costs about 1.2 us on an H200, however small. So datatypes whose rows are short on average are packed
 * in host memory instead (stage.c). A batch of copies (copy_batch) costs 3.8 us for each row there, because the copy engines
 * do it.
 */
#include <stdlib.h>

#include "device/device.h"

#define LONG_ROW 2048 /* bytes of an average row, from which on copies of the runtime are quicker than the processor */

/* ---- are the rows long enough? ---- */

static dma_status_t count_rows(void *rows, const dma_strip_t *strip)
{
    *(uint64_t *)rows += strip->n;
    return DMA_OK;
}

bool dma_device_has_long_rows(const dma_comm_t *comm, const dma_side_t *side)
{
    uint64_t rows = 0;

    return comm->host->type_strips && side->size >= LONG_ROW &&
           comm->host->type_strips(side->type, count_rows, &rows) == DMA_OK && rows && side->size / rows >= LONG_ROW;
}

/* ---- copies ---- */

/* Bytes are numbered as if the block were packed. */
typedef struct rows {
    const dma_gpu_runtime_t *rt;
    dma_gpu_stream_t *stream;
    const dma_side_t *side;
    uint64_t first, end; /* of the bytes to copy */
    uint64_t at;         /* where the user has element 0 */
    uint64_t packed;     /* where byte `first` is packed */
    bool packs;          /* from the user's memory to packed; else back */
    dma_rect_t open;     /* rows that have not been started: the next one may continue them; 0 rows: none */
} rows_t;

static dma_status_t flush(rows_t *r)
{
    dma_status_t status = r->open.rows ? dma_gpu_copy_rect(r->rt, r->stream, &r->open) : DMA_OK;

    r->open.rows = 0;
    return status;
}

/* Does the row continue those that have not been started? It touches the only one of them, or it is as far behind the last one as that
 * is behind the one before, on both sides. */
static bool continue_rows(dma_rect_t *open, uint64_t dst, uint64_t src, uint64_t bytes)
{
    uint64_t dst_step = dst - open->dst, src_step = src - open->src;

    if (open->rows == 1 && dst_step == open->row_bytes && src_step == open->row_bytes) {
        open->row_bytes += bytes;
        return true;
    }
    if (!open->rows || bytes != open->row_bytes) {
        return false;
    }
    if (open->rows == 1 && dst_step >= bytes && dst_step <= DMA_GPU_MAX_PITCH && src_step >= bytes &&
        src_step <= DMA_GPU_MAX_PITCH) {
        open->dst_pitch = dst_step;
        open->src_pitch = src_step;
    } else if (open->rows == 1 || dst_step != open->rows * open->dst_pitch ||
               src_step != open->rows * open->src_pitch) {
        return false;
    }
    open->rows++;
    return true;
}

/* Copies the part of a row that lies between `first` and `end`. `byte`: the number of its first byte. */
static dma_status_t copy_row(rows_t *r, uint64_t at, uint64_t byte, uint64_t bytes)
{
    uint64_t low = byte < r->first ? r->first : byte, high = byte + bytes < r->end ? byte + bytes : r->end;
    uint64_t packed = r->packed + (low - r->first), dst, src;
    dma_status_t status;

    if (low >= high) {
        return DMA_OK;
    }
    at += low - byte;
    dst = r->packs ? packed : at;
    src = r->packs ? at : packed;
    if (continue_rows(&r->open, dst, src, high - low)) {
        return DMA_OK;
    }
    status = flush(r);
    r->open = (dma_rect_t){.dst = dst, .src = src, .row_bytes = high - low, .rows = 1};
    return status;
}

/* Copies rows of a strip that lie between `first` and `end` completely. */
static dma_status_t copy_rect(const rows_t *r, const dma_strip_t *p, uint64_t at, uint64_t byte, uint64_t rows)
{
    uint64_t packed = r->packed + (byte - r->first);
    dma_rect_t rect = {.dst = r->packs ? packed : at,
                       .src = r->packs ? at : packed,
                       .dst_pitch = r->packs ? p->pitch : (uint64_t)p->stride,
                       .src_pitch = r->packs ? (uint64_t)p->stride : p->pitch,
                       .row_bytes = p->bytes,
                       .rows = rows};

    return dma_gpu_copy_rect(r->rt, r->stream, &rect);
}

/* The rows of a strip that lie between `first` and `end` completely: *low .. *high - 1. `byte`: as in copy_row. */
static void find_whole_rows(const rows_t *r, const dma_strip_t *p, uint64_t byte, uint64_t *low, uint64_t *high)
{
    *low = r->first <= byte ? 0 : (r->first - byte + p->pitch - 1) / p->pitch;
    *high = r->end < byte + p->bytes ? 0 : (r->end - byte - p->bytes) / p->pitch + 1;
    *low = *low < p->n ? *low : p->n;
    *high = *high < p->n ? *high : p->n;
    *high = *high > *low ? *high : *low;
}

static dma_status_t copy_strip_of(rows_t *r, const dma_strip_t *p, uint64_t element)
{
    uint64_t at = r->at + element * (uint64_t)r->side->extent + (uint64_t)p->at;
    uint64_t byte = element * r->side->size + p->packed, low = 0, high = 0;
    dma_status_t status = DMA_OK;

    if (p->n > 1 && p->stride > (ptrdiff_t)p->bytes) {
        find_whole_rows(r, p, byte, &low, &high);
    }
    for (uint64_t row = 0; status == DMA_OK && row < p->n; row++) {
        uint64_t row_at = at + row * (uint64_t)p->stride, row_byte = byte + row * p->pitch;

        if (row == low && high > low + 1) {
            status = copy_rect(r, p, row_at, row_byte, high - low);
            row = high - 1;
        } else {
            status = copy_row(r, row_at, row_byte, p->bytes);
        }
    }
    return status;
}

/* Copies one row of a strip in `n` elements from number `first` on. */
static dma_status_t copy_along(const rows_t *r, const dma_strip_t *p, uint64_t row, uint64_t first, uint64_t n)
{
    uint64_t extent = (uint64_t)r->side->extent, size = r->side->size;
    uint64_t at = r->at + first * extent + (uint64_t)p->at + row * (uint64_t)p->stride;
    uint64_t packed = r->packed + (first * size + p->packed + row * p->pitch - r->first);
    dma_rect_t rect = {.dst = r->packs ? packed : at,
                       .src = r->packs ? at : packed,
                       .dst_pitch = r->packs ? size : extent,
                       .src_pitch = r->packs ? extent : size,
                       .row_bytes = p->bytes,
                       .rows = n};

    return dma_gpu_copy_rect(r->rt, r->stream, &rect);
}

/* Rows that touch each other are one row. */
static dma_strip_t join_rows(const dma_strip_t *strip)
{
    dma_strip_t p = *strip;

    if (p.n > 1 && p.stride == (ptrdiff_t)p.bytes && p.pitch == p.bytes) {
        p.bytes *= p.n;
        p.n = 1;
    }
    return p;
}

static dma_status_t copy_strip(void *arg, const dma_strip_t *strip)
{
    rows_t *r = arg;
    const dma_strip_t p = join_rows(strip);
    uint64_t size = r->side->size, e = r->first / size;
    uint64_t whole = (r->first + size - 1) / size, end = r->end / size; /* elements that are copied completely */
    bool along = end > whole && end - whole > p.n && r->side->extent > (ptrdiff_t)p.bytes;
    dma_status_t status = DMA_OK;

    for (; status == DMA_OK && e * size < r->end; e++) {
        if (along && e == whole) {
            for (uint64_t row = 0; status == DMA_OK && row < p.n; row++) {
                status = copy_along(r, &p, row, whole, end - whole);
            }
            e = end - 1;
        } else {
            status = copy_strip_of(r, &p, e);
        }
    }
    return status;
}

dma_status_t dma_device_copy_typed(const dma_comm_t *comm, dma_gpu_stream_t *stream, const dma_device_end_t *end,
                                   uint64_t at, uint64_t packed, uint64_t bytes, bool packs)
{
    rows_t rows = {.rt = comm->device->rt,
                   .stream = stream,
                   .side = end->type,
                   .first = end->skip,
                   .end = end->skip + bytes,
                   .at = at,
                   .packed = packed,
                   .packs = packs};
    dma_status_t status = comm->host->type_strips(end->type->type, copy_strip, &rows);

    return status == DMA_OK ? flush(&rows) : status;
}
