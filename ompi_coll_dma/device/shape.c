/* Blocks in device memory that have a shape (gpu/shape.h): finding it, and whether engines support it. */
#include "core/resolve.h"
#include "device/device.h"

bool dma_device_shape(const dma_comm_t *comm, dma_side_t *side, int blocks, dma_shape_t *shape)
{
    dma_rows_t layout;
    uint64_t count = 0;

    if (side->dense || !comm->host->type_rows || comm->host->type_rows(side->type, &layout) != DMA_OK) {
        return side->dense;
    }
    for (int b = 0; b < blocks; b++) {
        uint64_t of_block = dma_side_count(side, b);

        count = of_block > count ? of_block : count;
    }
    if (!dma_shape_from_rows(&layout, count, side->extent, shape)) {
        return false;
    }
    side->addr = (char *)side->addr + layout.first;
    side->dense = true;
    return true;
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
