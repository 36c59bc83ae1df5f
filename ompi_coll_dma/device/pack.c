/*
 * Packing inside the device, where its engine does not copy between shapes: before the rank enters the call, what it sends
 * goes to memory of ours beside the user's, in one piece, and what it receives comes there too and is unpacked at the end.
 * The runtime's own strided copies do it. The peers see a dense buffer and need not know.
 *
 *     scratch   | blocks to receive | blocks to send |     of the communicator: one call at a time has it
 *
 * Without memory for it the call is staged.
 */
#include <stdlib.h>

#include "device/device.h"

/* Device memory of at least so many bytes; in scope. */
static dma_status_t reserve(struct dma_device_comm *dc, const dma_gpu_runtime_t *rt, uint64_t bytes)
{
    uint64_t addr;
    dma_status_t status;

    if (!dc->stream && (status = rt->stream_create(&dc->stream)) != DMA_OK) {
        dc->stream = NULL;
        return status;
    }
    dc->scratch_of = rt;
    if (bytes <= dc->scratch_bytes) {
        return DMA_OK;
    }
    bytes += bytes / 2; /* a new one is new to all peers: not for every call that is a bit larger */
    if ((status = rt->alloc(bytes, &addr)) != DMA_OK) {
        return status;
    }
    if (dc->scratch) {
        (void)rt->free(dc->scratch);
    }
    dc->scratch = addr;
    dc->scratch_bytes = bytes;
    return DMA_OK;
}

/* In the stream's order; in scope. */
static dma_status_t copy(const struct dma_device_comm *dc, const dma_gpu_runtime_t *rt, const dma_location_t *dst,
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

static dma_location_t place(const dma_blocks_t *blocks, int block, const dma_shape_t *shape)
{
    return (dma_location_t){.addr = (uint64_t)(uintptr_t)dma_blocks_addr(blocks, (uint64_t)block),
                            .shape = shape ? *shape : (dma_shape_t){0}};
}

/* Blocks first .. last - 1 of the user's, into ours. */
static dma_status_t pack(const struct dma_device_comm *dc, const dma_gpu_runtime_t *rt, const dma_blocks_t *to,
                         const dma_blocks_t *from, const dma_shape_t *shape, int first, int last)
{
    dma_status_t status = DMA_OK;

    for (int b = first; status == DMA_OK && b < last; b++) {
        dma_location_t dst = place(to, b, NULL), src = place(from, b, shape);

        status = copy(dc, rt, &dst, &src, dma_blocks_bytes(from, (uint64_t)b));
    }
    return status;
}

/* Ours in the place of the user's sides, which stay what they are unless all has been packed; in scope. */
static dma_status_t replace(const dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_comm *dc = comm->device;
    struct dma_device_call *d = task->device, user = *d;
    dma_run_t *run = &task->run;
    dma_blocks_t recv = run->recv;
    bool gathers = dma_coll_gathers(task->coll);
    int n = comm->nranks, rank = comm->rank, sends = gathers ? 1 : n;
    char *at = (char *)(uintptr_t)dc->scratch;
    dma_blocks_t send = run->send;
    dma_status_t status = DMA_OK;

    if (d->recv_shape.row) {
        d->user_recv = run->recv;
        d->user_shape = d->recv_shape;
        run->recv = d->packed_recv = dma_blocks_packed(&d->user_recv, n, at, d->packed_displs + n);
        at += dma_blocks_all(&run->recv, n);
        if (task->in_place) {
            run->send = (dma_blocks_t){.addr = dma_blocks_addr(&run->recv, (uint64_t)rank), .bytes = send.bytes};
            status = pack(dc, d->rt, &run->recv, &d->user_recv, &d->user_shape, rank, rank + 1);
        }
    }
    if (!task->in_place && d->send_shape.row) {
        run->send = dma_blocks_packed(&send, sends, at, d->packed_displs);
        status = pack(dc, d->rt, &run->send, &send, &d->send_shape, 0, sends);
    }
    if (status == DMA_OK) {
        status = d->rt->stream_sync(dc->stream);
    }
    if (status != DMA_OK) {
        *d = user;
        run->send = send;
        run->recv = recv;
    }
    return status;
}

dma_status_t dma_device_pack_shapes(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_comm *dc = comm->device;
    struct dma_device_call *d = task->device;
    int n = comm->nranks, sends = dma_coll_gathers(task->coll) ? 1 : n;
    uint64_t recv = d->recv_shape.row ? dma_blocks_all(&task->run.recv, n) : 0;
    uint64_t send = d->send_shape.row && !task->in_place ? dma_blocks_all(&task->run.send, sends) : 0;
    dma_gpu_memory_t memory = d->recv;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!(d->packed_displs = malloc(2 * (size_t)n * sizeof(*d->packed_displs)))) {
        return DMA_ERR_NOMEM;
    }
    if ((status = d->rt->enter(d->device, &scope)) != DMA_OK) {
        return status;
    }
    status = reserve(dc, d->rt, recv + send + 1);
    if (status == DMA_OK && d->recv_shape.row) {
        dma_gpu_classify(d->rt, dc->scratch, recv + send + 1, &memory);
        status = memory.exportable ? DMA_OK : DMA_UNSUPPORTED;
    }
    if (status == DMA_OK) {
        status = replace(comm, task);
    }
    if (status == DMA_OK) {
        d->recv = memory;
        d->recv_shape = d->send_shape = (dma_shape_t){0};
    }
    d->rt->leave(&scope);
    return status;
}

dma_status_t dma_device_unpack_shapes(dma_task_t *task)
{
    const struct dma_device_comm *dc = task->comm->device;
    const struct dma_device_call *d = task->device;
    bool own_kept = task->in_place && dma_coll_gathers(task->coll);
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!d->user_shape.row) {
        return DMA_OK;
    }
    if ((status = d->rt->enter(d->device, &scope)) != DMA_OK) {
        return status;
    }
    for (int b = 0; status == DMA_OK && b < task->comm->nranks; b++) {
        if (!own_kept || b != task->comm->rank) {
            dma_location_t dst = place(&d->user_recv, b, &d->user_shape), src = place(&d->packed_recv, b, NULL);

            status = copy(dc, d->rt, &dst, &src, dma_blocks_bytes(&d->user_recv, (uint64_t)b));
        }
    }
    if (status == DMA_OK) {
        status = d->rt->stream_sync(dc->stream);
    }
    d->rt->leave(&scope);
    return status;
}

void dma_device_free_scratch(struct dma_device_comm *dc)
{
    const dma_gpu_runtime_t *rt = dc->scratch_of;
    dma_gpu_scope_t scope;

    /* where there is none any more, the application has shut the runtime down, and all memory with it */
    if (rt && rt->enter(dc->device->ordinal, &scope) == DMA_OK) {
        (void)rt->stream_destroy(dc->stream);
        if (dc->scratch) {
            (void)rt->free(dc->scratch);
        }
        rt->leave(&scope);
    }
}
