/*
 * Blocks of irregular datatypes, packed into and unpacked from scratch memory on the device.
 *
 * The host services list the strips of an element: rows of equal length at a regular distance. A strip is one strided copy,
 * and a row that is alone is one copy. Nothing waits for the copies here: they are on the stream of the communicator's scratch
 * memory.
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

typedef struct rows {
    const dma_gpu_runtime_t *rt;
    dma_gpu_stream_t *stream;
    const dma_side_t *side;
    uint64_t at, packed; /* of the first element: where the user has it, and packed */
    uint64_t elements;
    bool packs;               /* from the user's memory to packed; else back */
    uint64_t dst, src, bytes; /* a row that has not been started: the next one may continue it */
} rows_t;

static dma_status_t flush(rows_t *r)
{
    dma_status_t status = r->bytes ? r->rt->copy_async(r->stream, r->dst, r->src, r->bytes) : DMA_OK;

    r->bytes = 0;
    return status;
}

static dma_status_t copy_row(rows_t *r, uint64_t at, uint64_t packed, uint64_t bytes)
{
    uint64_t dst = r->packs ? packed : at, src = r->packs ? at : packed;
    dma_status_t status;

    if (r->bytes && r->dst + r->bytes == dst && r->src + r->bytes == src) {
        r->bytes += bytes;
        return DMA_OK;
    }
    status = flush(r);
    r->dst = dst;
    r->src = src;
    r->bytes = bytes;
    return status;
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

    if (p->n > 1 && p->stride > (ptrdiff_t)p->bytes) {
        return dma_gpu_copy_rect(r->rt, r->stream, &rect);
    }
    for (uint64_t row = 0; status == DMA_OK && row < p->n; row++) {
        status = copy_row(r, at + row * (uint64_t)p->stride, packed + row * p->pitch, p->bytes);
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
