/*
 * Copies between the user's blocks and packed blocks in scratch memory, on the stream of the scratch memory.
 *
 * The runtime does them. Blocks with a shape are rectangles (gpu/shape.h), blocks of irregular datatypes are rows (typed.c).
 * Nothing waits for the copies here. All functions need the runtime's scope of the device (enter, leave).
 */
#include "device/device.h"

/* A copy that has not been started: the next block may continue it. */
typedef struct copy {
    dma_location_t dst, src;
    uint64_t bytes;
} copy_t;

/* Where byte `skip` of a block is. */
static dma_location_t location(const dma_device_end_t *end, int block)
{
    uint64_t addr = (uint64_t)(uintptr_t)dma_blocks_addr(end->blocks, (uint64_t)block);

    if (end->shape && end->shape->row) {
        return (dma_location_t){.addr = addr, .skip = end->skip, .shape = *end->shape};
    }
    return (dma_location_t){.addr = end->type ? addr : addr + end->skip};
}

static dma_status_t start_copy(const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, const copy_t *c)
{
    dma_status_t status = DMA_OK;
    dma_cut_t cut;
    dma_rect_t r;

    dma_cut_begin(&cut, &c->dst, &c->src, c->bytes);
    while (status == DMA_OK && dma_cut_next(&cut, &r)) {
        status = dma_gpu_copy_rect(rt, stream, &r);
    }
    return status;
}

/* Does a block continue the copy, on both sides? */
static bool continues(const copy_t *c, const dma_location_t *dst, const dma_location_t *src)
{
    return !dst->shape.row && !src->shape.row && dst->addr == c->dst.addr + c->bytes &&
           src->addr == c->src.addr + c->bytes;
}

dma_status_t dma_device_copy_blocks(const dma_comm_t *comm, dma_gpu_stream_t *stream, const dma_device_end_t *to,
                                    const dma_device_end_t *from, const dma_blocks_t *sizes, dma_range_t range,
                                    int except)
{
    copy_t c = {.bytes = 0};
    dma_status_t status = DMA_OK;

    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        dma_location_t dst = location(to, b), src = location(from, b);
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(sizes, (uint64_t)b);

        if (bytes && to->type) {
            status = dma_device_copy_typed(comm, stream, to, dst.addr, src.addr, bytes, false);
        } else if (bytes && from->type) {
            status = dma_device_copy_typed(comm, stream, from, src.addr, dst.addr, bytes, true);
        } else if (bytes && c.bytes && continues(&c, &dst, &src)) {
            c.bytes += bytes;
        } else if (bytes) {
            status = start_copy(comm->device->rt, stream, &c);
            c = (copy_t){.dst = dst, .src = src, .bytes = bytes};
        }
    }
    return status == DMA_OK ? start_copy(comm->device->rt, stream, &c) : status;
}
