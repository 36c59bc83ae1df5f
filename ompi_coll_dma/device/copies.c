/*
 * Copies between the user's blocks and packed blocks in scratch memory, on the stream of the scratch memory.
 *
 * The runtime does them, as rectangles (rows.h). Nothing waits for the copies here. All functions need the runtime's scope of the
 * device (enter, leave).
 */
#include "device/device.h"
#include "device/rows.h"

static dma_place_t place_of(const dma_device_end_t *end, int block)
{
    return (dma_place_t){.addr = (uint64_t)(uintptr_t)dma_blocks_addr(end->blocks, (uint64_t)block),
                         .skip = end->skip,
                         .shape = end->shape,
                         .type = end->type};
}

dma_status_t dma_device_copy_blocks(const dma_comm_t *comm, dma_gpu_stream_t *stream, const dma_device_end_t *to,
                                    const dma_device_end_t *from, const dma_blocks_t *sizes, dma_range_t range,
                                    int except)
{
    dma_rect_stream_t copies = {.rt = comm->device->rt, .stream = stream};
    dma_rects_t rects = {.host = comm->host, .visit = dma_rect_start, .arg = &copies};
    dma_status_t status = DMA_OK;

    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        const dma_place_t dst = place_of(to, b), src = place_of(from, b);
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(sizes, (uint64_t)b);

        if (bytes) {
            status = dma_rects_add(&rects, &dst, &src, bytes);
        }
    }
    return status == DMA_OK ? dma_rects_end(&rects) : status;
}
