/*
 * Copies between device memory and host memory: contiguous, or packed. The cores never access device memory, and convertors read host
 * memory only: what they pack is first copied as a stretch, from its first to its last byte, gaps included. What is unpacked is
 * written row by row, because nobody may write the gaps (write.c).
 */
#include <stdlib.h>

#include "core/resolve.h"
#include "device/device.h"
#include "device/write.h"

#define SMALL_COPY 65536 /* bytes: runtimes copy as much from pageable memory at once as from pinned memory */

dma_status_t dma_device_copy(const dma_gpu_runtime_t *rt, int device, void *to, const void *from, uint64_t bytes)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->copy((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
        rt->leave(&scope);
    }
    return status;
}

/* Copies through the slots of pinned memory; without it the runtime copies pageable memory. */
static dma_status_t copy_by_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, void *to, const void *from,
                                  uint64_t bytes, bool reads)
{
    dma_lease_t *pin = bytes > SMALL_COPY ? dma_pin_get_slots(proc, rt, device) : NULL;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!pin) {
        return dma_device_copy(rt, device, to, from, bytes);
    }
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = (reads ? dma_pin_read : dma_pin_write)(pin, to, from, bytes);
        rt->leave(&scope);
    }
    (void)dma_lease_give_back(proc, pin);
    return status;
}

dma_status_t dma_device_read(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, void *to, const void *from,
                             uint64_t bytes)
{
    return copy_by_slots(proc, rt, device, to, from, bytes, true);
}

dma_status_t dma_device_write(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, void *to, const void *from,
                              uint64_t bytes)
{
    return copy_by_slots(proc, rt, device, to, from, bytes, false);
}

/* ---- blocks that are not contiguous ---- */

dma_span_t dma_device_span_of(const dma_side_t *side, char *at, size_t count)
{
    ptrdiff_t last = (ptrdiff_t)(count - 1) * side->extent;
    char *low = at + side->lb + (last < 0 ? last : 0), *high = at + side->ub + (last > 0 ? last : 0);

    return (dma_span_t){.first = low, .bytes = high > low ? (uint64_t)(high - low) : 0};
}

dma_status_t dma_device_read_stretch(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, const dma_span_t *span,
                                     dma_stretch_t *s)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    s->pin = dma_pin_get(proc, rt, device, span->bytes);
    s->memory = s->pin ? s->pin->memory : span->bytes == UINT64_MAX ? NULL : malloc(span->bytes);
    if (!s->memory) {
        return DMA_ERR_NOMEM;
    }
    if (!s->pin) {
        status = dma_device_read(proc, rt, device, s->memory, span->first, span->bytes);
    } else if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = dma_pin_start(s->pin, s->memory, span->first, span->bytes);
        status = status == DMA_OK ? dma_pin_end(s->pin) : status;
        rt->leave(&scope);
    }
    if (status != DMA_OK) {
        dma_device_drop_stretch(proc, s);
    }
    return status;
}

void dma_device_drop_stretch(dma_proc_t *proc, const dma_stretch_t *s)
{
    if (s->pin) {
        (void)dma_lease_give_back(proc, s->pin);
    } else {
        free(s->memory);
    }
}

static dma_status_t read_row(void *arg, const dma_rect_t *r)
{
    const dma_side_t *side = arg;

    return dma_device_copy(side->runtime, side->device, (void *)(uintptr_t)r->dst, (void *)(uintptr_t)r->src,
                           r->row_bytes);
}

dma_status_t dma_device_pack(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *to)
{
    char *at = dma_side_addr(side, block);
    dma_span_t span = dma_device_span_of(side, at, count);
    dma_stretch_t s;
    dma_status_t status;

    if (side->dense) {
        return dma_device_read(comm->proc, side->runtime, side->device, to, at, count * side->size);
    }
    if (side->scattered && comm->host->type_strips) { /* between its allocations there is nothing to read */
        dma_side_t type = *side;
        dma_rects_t rects = {.host = comm->host, .visit = read_row, .arg = &type};

        return dma_rects_list(&rects, &(dma_place_t){.addr = (uint64_t)(uintptr_t)to},
                              &(dma_place_t){.addr = (uint64_t)(uintptr_t)at, .type = &type}, count * side->size);
    }
    status = dma_device_read_stretch(comm->proc, side->runtime, side->device, &span, &s);
    if (status == DMA_OK) {
        status = comm->host->pack(s.memory + (at - span.first), count, side->type, to, count * side->size);
        dma_device_drop_stretch(comm->proc, &s);
    }
    return status;
}

dma_status_t dma_device_unpack(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count, const char *from)
{
    dma_writer_t writer;
    dma_status_t status;

    if (side->dense) {
        return dma_device_write(comm->proc, side->runtime, side->device, at, from, count * side->size);
    }
    status = dma_writer_begin(&writer, comm->proc, side->runtime, side->device);
    if (status == DMA_OK) {
        status = dma_writer_put_elements(&writer, comm->host, side, at, count, from, true);
        status = dma_writer_end(&writer, status);
    }
    return status;
}
