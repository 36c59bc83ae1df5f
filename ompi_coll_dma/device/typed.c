/*
 * Blocks of irregular datatypes, packed into and unpacked from scratch memory on the device.
 *
 * The host services list the strips of an element: rows of equal length at a regular distance. Rows that lie at a regular
 * distance are one strided copy. The others are collected, and the runtime gets many of them with one call. Nothing waits
 * for the copies here: they are on the stream of the communicator's scratch memory.
 *
 * A copy costs about the same for one byte as for some hundred. So datatypes whose rows are short on average are packed in
 * host memory instead (stage.c).
 */
#include <stdlib.h>

#include "device/device.h"

#define LONG_ROW  512 /* bytes of an average row, from which on copies of the runtime are quicker than the processor */
#define MANY_ROWS 8   /* of a strip, that are one strided copy */
#define ROWS      256 /* that are collected */

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

typedef struct rows {
    const dma_gpu_runtime_t *rt;
    dma_gpu_stream_t *stream;
    const dma_side_t *side;
    uint64_t at, packed; /* of the first element: where the user has it, and packed */
    uint64_t elements;
    bool packs; /* from the user's memory to packed; else back */
    size_t n;   /* collected: */
    uint64_t dst[ROWS], src[ROWS], bytes[ROWS];
} rows_t;

static dma_status_t flush(rows_t *r)
{
    dma_status_t status = r->n ? r->rt->copy_batch(r->stream, r->dst, r->src, r->bytes, r->n) : DMA_OK;

    r->n = 0;
    return status;
}

static dma_status_t collect(rows_t *r, uint64_t at, uint64_t packed, uint64_t bytes)
{
    uint64_t dst = r->packs ? packed : at, src = r->packs ? at : packed;
    size_t last = r->n - 1;

    if (r->n && r->dst[last] + r->bytes[last] == dst && r->src[last] + r->bytes[last] == src) {
        r->bytes[last] += bytes;
        return DMA_OK;
    }
    r->dst[r->n] = dst;
    r->src[r->n] = src;
    r->bytes[r->n++] = bytes;
    return r->n == ROWS ? flush(r) : DMA_OK;
}

static dma_status_t copy_strip_of(rows_t *r, const dma_strip_t *p, uint64_t element)
{
    uint64_t at = r->at + element * (uint64_t)r->side->extent + (uint64_t)p->at;
    uint64_t packed = r->packed + element * r->side->size + p->packed;
    dma_rect_t rect = {.dst = r->packs ? packed : at,
                       .src = r->packs ? at : packed,
                       .dst_pitch = r->packs ? p->pitch : (uint64_t)p->stride,
                       .src_pitch = r->packs ? (uint64_t)p->stride : p->pitch,
                       .row_bytes = p->bytes,
                       .rows = p->n};
    dma_status_t status = DMA_OK;

    if (p->n >= MANY_ROWS && p->stride > (ptrdiff_t)p->bytes) {
        return dma_gpu_copy_rect(r->rt, r->stream, &rect);
    }
    for (uint64_t row = 0; status == DMA_OK && row < p->n; row++) {
        status = collect(r, at + row * (uint64_t)p->stride, packed + row * p->pitch, p->bytes);
    }
    return status;
}

static dma_status_t copy_strip(void *arg, const dma_strip_t *strip)
{
    rows_t *r = arg;
    dma_status_t status = DMA_OK;

    for (uint64_t e = 0; status == DMA_OK && e < r->elements; e++) {
        status = copy_strip_of(r, strip, e);
    }
    return status;
}

dma_status_t dma_device_copy_typed(const dma_task_t *task, const dma_side_t *side, uint64_t at, uint64_t packed,
                                   uint64_t bytes, bool packs)
{
    rows_t rows = {.rt = task->device->rt,
                   .stream = task->comm->device->stream,
                   .side = side,
                   .at = at,
                   .packed = packed,
                   .elements = bytes / side->size,
                   .packs = packs};
    dma_status_t status = task->comm->host->type_strips(side->type, copy_strip, &rows);

    return status == DMA_OK ? flush(&rows) : status;
}
