/* Calls in device memory whose blocks have a shape: see device.h and gpu/shape.h. */
#include <stdlib.h>
#include <string.h>

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
    if (!dma_shape_of(&layout, count, side->extent, shape)) {
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

bool dma_device_can(const struct dma_device_comm *dc, const dma_shape_t *send, const dma_shape_t *recv)
{
    return dc && ((!send->row && !recv->row) || dc->device->traits.features & DMA_GPU_SHAPES);
}

bool dma_device_all_can(const dma_comm_t *comm, const dma_task_t *task)
{
    bool shaped = task->device->recv_shape.row, can = true;

    for (int r = 0; r < comm->nranks; r++) {
        shaped = shaped || dma_device_brief(comm, r, task->run.seq)->more & DMA_BRIEF_SHAPE;
        can = can && comm->device->traits[r].features & DMA_GPU_SHAPES;
    }
    return !shaped || can;
}

/* ---- staging ---- */

/* Both in host memory. */
static void rearrange(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
{
    dma_cut_t cut;
    dma_rect_t r;

    dma_cut_begin(&cut, dst, src, bytes);
    while (dma_cut_next(&cut, &r)) {
        for (uint64_t row = 0; row < r.rows; row++) {
            memcpy((char *)(uintptr_t)(r.dst + row * r.dst_pitch), (char *)(uintptr_t)(r.src + row * r.src_pitch),
                   r.row_bytes);
        }
    }
}

/* The whole stretch comes over, holes and all: one copy of the runtime is faster than one for each row. */
dma_status_t dma_device_take(const dma_gpu_runtime_t *rt, char *to, const char *block, const dma_shape_t *shape,
                             uint64_t bytes)
{
    uint64_t span = dma_shape_span(shape, bytes);
    char *stretch = span == UINT64_MAX ? NULL : malloc(span);
    dma_status_t status;

    if (!stretch) {
        return DMA_ERR_NOMEM;
    }
    status = rt->copy((uint64_t)(uintptr_t)stretch, (uint64_t)(uintptr_t)block, span);
    if (status == DMA_OK) {
        dma_location_t dst = {.addr = (uint64_t)(uintptr_t)to};
        dma_location_t src = {.addr = (uint64_t)(uintptr_t)stretch, .shape = *shape};

        rearrange(&dst, &src, bytes);
    }
    free(stretch);
    return status;
}
