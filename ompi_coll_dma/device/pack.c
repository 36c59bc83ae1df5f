/*
 * Packing inside the device, for engines that do not copy between shapes.
 *
 * Before the rank enters the call, what it sends is packed into scratch memory on the same device. What it receives
 * also arrives there and is unpacked after the call. The runtime's strided copies do this. Peers see a contiguous
 * buffer and need not know.
 *
 *     scratch   | blocks to receive | blocks to send |     one per communicator, used by one call at a time
 *
 * If the scratch memory cannot be allocated, the call is staged in host memory. Functions with the note "in scope" need
 * the runtime's scope of the device (enter, leave).
 */
#include <stdlib.h>

#include "device/device.h"

/* Makes scratch memory of at least `bytes` bytes; in scope. */
static dma_status_t reserve_scratch(struct dma_device_comm *dc, const dma_gpu_runtime_t *rt, uint64_t bytes)
{
    dma_status_t status;

    if (!dc->stream && (status = rt->stream_create(&dc->stream)) != DMA_OK) {
        dc->stream = NULL;
        return status;
    }
    dc->scratch_of = rt;
    return dma_gpu_grow(rt, &dc->scratch, &dc->scratch_bytes, bytes);
}

/* Starts copies on the stream; in scope. */
static dma_status_t copy_block(const struct dma_device_comm *dc, const dma_gpu_runtime_t *rt, const dma_location_t *dst,
                               const dma_location_t *src, uint64_t bytes)
{
    dma_status_t status = DMA_OK;
    dma_cut_t cut;
    dma_rect_t r;

    dma_cut_begin(&cut, dst, src, bytes);
    while (status == DMA_OK && dma_cut_next(&cut, &r)) {
        status = dma_gpu_copy_rect(rt, dc->stream, &r);
    }
    return status;
}

static dma_location_t block_location(const dma_blocks_t *blocks, int block, const dma_shape_t *shape)
{
    return (dma_location_t){.addr = (uint64_t)(uintptr_t)dma_blocks_addr(blocks, (uint64_t)block),
                            .shape = shape ? *shape : (dma_shape_t){0}};
}

static dma_status_t pack(const dma_task_t *task, const dma_blocks_t *to, const dma_blocks_t *from,
                         const dma_shape_t *shape, dma_range_t range)
{
    dma_status_t status = DMA_OK;

    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        dma_location_t dst = block_location(to, b, NULL), src = block_location(from, b, shape);

        status = copy_block(task->comm->device, task->device->rt, &dst, &src, dma_blocks_bytes(from, (uint64_t)b));
    }
    return status;
}

/* In scope, like the next function. */
static dma_status_t pack_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    return pack(task, staged, &stage->home, &task->device->pack.recv_shape, range);
}

static dma_status_t pack_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    (void)stage;
    return pack(task, staged, &task->run.send, &task->device->pack.send_shape, range);
}

static dma_status_t pack_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const struct dma_device_comm *dc = task->comm->device;
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = 0; status == DMA_OK && b < task->comm->nranks; b++) {
        if (b != except) {
            dma_location_t dst = block_location(&stage->home, b, &d->pack.recv_shape),
                           src = block_location(&stage->recv, b, NULL);

            status = copy_block(dc, d->rt, &dst, &src, dma_blocks_bytes(&stage->home, (uint64_t)b));
        }
    }
    if (status == DMA_OK) {
        status = d->rt->stream_sync(dc->stream);
    }
    d->rt->leave(&scope);
    return status;
}

static const dma_stage_ops_t pack_ops = {.recv_in = pack_recv_in, .send_in = pack_send_in, .out = pack_out};

/* Puts scratch memory in place of the sides with a shape; in scope. */
static dma_status_t stage_sides(const dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    dma_device_stage_t *pack = &d->pack;
    dma_run_t *run = &task->run;
    int n = comm->nranks;
    char *at = (char *)(uintptr_t)comm->device->scratch;
    dma_status_t status = DMA_OK;

    pack->send_shape = d->send_shape;
    pack->recv_shape = d->recv_shape;
    dma_stage_push(task, &pack->stage, &pack_ops);
    if (d->recv_shape.row) {
        dma_blocks_t staged = dma_blocks_packed(&run->recv, n, at, pack->displs + n);

        at += dma_blocks_all(&run->recv, n);
        status = dma_stage_recv(task, &pack->stage, &staged, task->in_place);
    }
    if (status == DMA_OK && !task->in_place && d->send_shape.row) {
        dma_blocks_t staged = dma_blocks_packed(&run->send, dma_blocks_sent(task->coll, n).end, at, pack->displs);

        status = dma_stage_send(task, &pack->stage, &staged);
    }
    return status == DMA_OK ? d->rt->stream_sync(comm->device->stream) : status;
}

/* Like stage_sides; after an error the call is unchanged. */
static dma_status_t try_stage(const dma_comm_t *comm, dma_task_t *task)
{
    dma_blocks_t send = task->run.send, recv = task->run.recv;
    dma_stage_t *stages = task->stages;
    dma_status_t status = stage_sides(comm, task);

    if (status != DMA_OK) {
        task->run.send = send;
        task->run.recv = recv;
        task->stages = stages;
    }
    return status;
}

dma_status_t dma_device_pack_shapes(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    struct dma_device_call *d = task->device;
    int n = comm->nranks, sends = dma_blocks_sent(task->coll, n).end;
    uint64_t recv = d->recv_shape.row ? dma_blocks_all(&task->run.recv, n) : 0;
    uint64_t send = d->send_shape.row && !task->in_place ? dma_blocks_all(&task->run.send, sends) : 0;
    dma_gpu_memory_t memory = d->recv;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!(d->pack.displs = malloc(2 * (size_t)n * sizeof(*d->pack.displs)))) {
        return DMA_ERR_NOMEM;
    }
    if ((status = d->rt->enter(d->device, &scope)) != DMA_OK) {
        return status;
    }
    status = reserve_scratch(dc, d->rt, recv + send + 1);
    if (status == DMA_OK && d->recv_shape.row) {
        dma_gpu_classify(d->rt, dc->scratch, recv + send + 1, &memory);
        status = memory.exportable ? DMA_OK : DMA_UNSUPPORTED;
    }
    if (status == DMA_OK) {
        status = try_stage(comm, task);
    }
    if (status == DMA_OK) {
        d->recv = memory;
        d->recv_shape = d->send_shape = (dma_shape_t){0};
    }
    d->rt->leave(&scope);
    return status;
}

void dma_device_free_scratch(struct dma_device_comm *dc)
{
    const dma_gpu_runtime_t *rt = dc->scratch_of;
    dma_gpu_scope_t scope;

    /* If the scope cannot be entered, the application has shut the runtime down, which has freed all memory. */
    if (rt && rt->enter_to_release(dc->device->ordinal, &scope) == DMA_OK) {
        (void)rt->stream_destroy(dc->stream);
        if (dc->scratch) {
            (void)rt->free(dc->scratch);
        }
        rt->leave(&scope);
    }
}
