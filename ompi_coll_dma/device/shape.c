/*
 * Blocks in device memory that have a shape (gpu/shape.h) or an irregular datatype: finding the shape, whether engines support it,
 * and whether the runtime packs the rows.
 */
#include "core/resolve.h"
#include "device/device.h"

#define LONG_ROW 2048 /* bytes of an average row, from which on copies of the runtime are quicker than the processor */

bool dma_shape_of_elements(const dma_host_t *host, const dma_side_t *side, uint64_t count, ptrdiff_t *first,
                           dma_shape_t *shape)
{
    dma_rows_t layout;

    if (!host->type_rows || host->type_rows(side->type, &layout) != DMA_OK ||
        !dma_shape_from_rows(&layout, count, side->extent, shape)) {
        return false;
    }
    *first = layout.first;
    return true;
}

bool dma_device_shape(const dma_comm_t *comm, dma_side_t *side, int blocks, dma_shape_t *shape)
{
    ptrdiff_t first;
    uint64_t count = 0;

    if (side->dense || side->types || side->scattered) {
        return side->dense;
    }
    for (int b = 0; b < blocks; b++) {
        uint64_t of_block = dma_side_count(side, b);

        count = of_block > count ? of_block : count;
    }
    if (!dma_shape_of_elements(comm->host, side, count, &first, shape)) {
        return false;
    }
    side->addr = (char *)side->addr + first;
    side->dense = true;
    return true;
}

static dma_status_t count_rows(void *rows, const dma_strip_t *strip)
{
    *(uint64_t *)rows += strip->n;
    return DMA_OK;
}

/* A copy inside a device costs about 1.2 us on an H200, however small. So datatypes whose rows are short on average are packed
 * in host memory instead (stage.c). A batch of copies (copy_batch) costs 3.8 us for each row there, because the copy engines
 * do it. */
bool dma_device_has_long_rows(const dma_comm_t *comm, const dma_side_t *side)
{
    uint64_t rows = 0;

    if (!comm->host->type_strips || side->types || side->scattered) {
        return comm->host->type_strips && !side->types; /* scattered: whatever they are, nothing else can copy them */
    }
    return side->size >= LONG_ROW && comm->host->type_strips(side->type, count_rows, &rows) == DMA_OK && rows &&
           side->size / rows >= LONG_ROW;
}

const dma_shape_t *dma_device_sent_shape(const struct dma_device_call *d, bool in_place)
{
    const dma_shape_t *shape = in_place ? &d->recv_shape : &d->send_shape;

    return shape->row ? shape : NULL;
}

bool dma_device_supports_shapes(const struct dma_device_comm *dc, const dma_shape_t *send, const dma_shape_t *recv)
{
    return dc && ((!send->row && !recv->row) || dc->device->traits.features & DMA_GPU_SHAPES);
}

bool dma_device_all_support_shapes(const dma_comm_t *comm, const dma_task_t *task)
{
    bool shaped = false, can = true;

    for (int r = 0; r < comm->nranks; r++) {
        shaped = shaped || dma_device_info(comm, r, task->run.seq)->flags & DMA_DEVICE_INFO_SHAPE;
        can = can && comm->device->traits[r].features & DMA_GPU_SHAPES;
    }
    return !shaped || can;
}
