/*
 * Staging in host memory: for calls that no engine of this rank can carry out, and for calls that the engines of some
 * other rank cannot.
 *
 * Only the runtime accesses device memory, never the cores.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

/* Copies between shapes inside host memory. */
static void copy_rects(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes)
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

/* Copies a block with a shape to packed host memory. The runtime copies everything from the first to the last byte, gaps
 * included, because one copy is faster than one for each row. */
static dma_status_t copy_shaped(const dma_gpu_runtime_t *rt, char *to, const char *block, const dma_shape_t *shape,
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

        copy_rects(&dst, &src, bytes);
    }
    free(stretch);
    return status;
}

/* Packs a block with an irregular datatype. */
static dma_status_t copy_typed(const dma_comm_t *comm, char *to, char *block, const dma_side_t *type, uint64_t bytes)
{
    dma_side_t side = *type;

    side.addr = block;
    return dma_device_pack(comm, &side, 0, bytes / type->size, to);
}

static dma_status_t copy_in(const dma_task_t *task, const dma_blocks_t *to, const dma_blocks_t *from,
                            const dma_shape_t *shape, const dma_side_t *type, dma_range_t range)
{
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        uint64_t bytes = dma_blocks_bytes(from, (uint64_t)b);
        char *dst = dma_blocks_addr(to, (uint64_t)b), *src = dma_blocks_addr(from, (uint64_t)b);

        if (bytes) {
            status = type         ? copy_typed(task->comm, dst, src, type, bytes)
                     : shape->row ? copy_shaped(d->rt, dst, src, shape, bytes)
                                  : d->rt->copy((uint64_t)(uintptr_t)dst, (uint64_t)(uintptr_t)src, bytes);
        }
    }
    d->rt->leave(&scope);
    return status;
}

static dma_status_t host_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    return copy_in(task, staged, &stage->home, &task->device->host.recv_shape, task->device->host.recv_type, range);
}

static dma_status_t host_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    (void)stage;
    return copy_in(task, staged, &task->run.send, &task->device->host.send_shape, task->device->host.send_type, range);
}

static dma_status_t host_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const struct dma_device_call *d = task->device;
    const dma_side_t *type = d->host.recv_type;
    dma_proc_t *proc = task->comm->proc;
    dma_writer_t *writer;
    dma_status_t status = dma_writer_begin(proc, d->rt, d->device, &writer);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = 0; status == DMA_OK && b < task->comm->nranks; b++) {
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(&stage->recv, (uint64_t)b);
        char *to = dma_blocks_addr(&stage->home, (uint64_t)b), *from = dma_blocks_addr(&stage->recv, (uint64_t)b);
        dma_location_t dst = {.addr = (uint64_t)(uintptr_t)to, .shape = d->host.recv_shape};
        dma_location_t src = {.addr = (uint64_t)(uintptr_t)from};

        if (bytes) {
            status = type ? dma_writer_put_elements(writer, task->comm->host, type, to, bytes / type->size, from, true)
                          : dma_writer_put_shape(writer, &dst, &src, bytes);
        }
    }
    return dma_writer_end(proc, writer, status);
}

static const dma_stage_ops_t host_ops = {.recv_in = host_recv_in, .send_in = host_send_in, .out = host_out};

static dma_status_t stage_recv(dma_task_t *task, dma_device_stage_t *host)
{
    dma_comm_t *comm = task->comm;
    dma_status_t status =
        dma_staging_get(comm, &host->stage, DMA_SIDE_RECV, dma_blocks_all(&task->run.recv, comm->nranks));
    dma_blocks_t staged;

    if (status != DMA_OK) {
        return status;
    }
    staged = dma_blocks_packed(&task->run.recv, comm->nranks, host->stage.memory[DMA_SIDE_RECV],
                               host->displs + comm->nranks);
    return dma_stage_recv(task, &host->stage, &staged, task->in_place);
}

static dma_status_t stage_send(dma_task_t *task, dma_device_stage_t *host)
{
    dma_comm_t *comm = task->comm;
    int n = dma_blocks_sent(task->coll, comm->nranks).end;
    dma_status_t status = dma_staging_get(comm, &host->stage, DMA_SIDE_SEND, dma_blocks_all(&task->run.send, n));
    dma_blocks_t staged;

    if (status != DMA_OK) {
        return status;
    }
    staged = dma_blocks_packed(&task->run.send, n, host->stage.memory[DMA_SIDE_SEND], host->displs);
    return dma_stage_send(task, &host->stage, &staged);
}

dma_status_t dma_device_stage(dma_task_t *task, dma_reason_t reason)
{
    struct dma_device_call *d = task->device;
    dma_status_t status = DMA_OK;

    dma_comm_count(task->comm, DMA_COUNT_calls_staged);
    dma_comm_note_reason(task->comm, reason);
    if (d->phase == DEVICE_ON_HOST) {
        return DMA_OK;
    }
    d->phase = DEVICE_ON_HOST;
    if (!(d->host.displs = malloc(2 * (size_t)task->comm->nranks * sizeof(*d->host.displs)))) {
        return DMA_ERR_NOMEM;
    }
    d->host.send_shape = d->send_shape;
    d->host.recv_shape = d->recv_shape;
    d->host.send_type = d->send_type;
    d->host.recv_type = d->recv_type;
    dma_stage_push(task, &d->host.stage, &host_ops);
    /* A side in host memory whose blocks have a shape is packed, too. */
    if (d->recv_on || d->recv_shape.row) {
        status = stage_recv(task, &d->host);
    }
    if (status == DMA_OK && !task->in_place && (d->send_on || d->send_shape.row)) {
        status = stage_send(task, &d->host);
    }
    return status;
}

dma_status_t dma_device_copy_own(dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    dma_status_t status =
        d->relayed ? DMA_OK : dma_device_stage(task, d->why); /* blocks with a shape or of any datatype */
    char *to = dma_blocks_addr(&task->run.recv, 0), *from = dma_blocks_addr(&task->run.send, 0);
    uint64_t bytes = dma_blocks_bytes(&task->run.send, 0);

    if (status != DMA_OK || !bytes || to == from) {
        return status;
    }
    if (d->relayed) {
        return dma_device_copy(d->rt, d->device, to, from, bytes);
    }
    memcpy(to, from, bytes);
    return DMA_OK;
}
