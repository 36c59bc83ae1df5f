/*
 * Scratch memory on the device, for sides that engines cannot use where they are:
 *
 *     blocks with a shape     of engines that do not copy between shapes
 *     irregular datatypes     with long rows (typed.c)
 *     receive side            memory that peers cannot open (of pools, virtually mapped, fine-grained, imported)
 *     either side             memory of another device than the communicator's, and of the host if the other side is not
 *
 * Before the rank enters the call, what it sends is copied to scratch memory on the same device. What it receives also
 * arrives there and is copied to its place after the call. The runtime does these copies. Peers see a contiguous buffer
 * of plain memory and need not know.
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

/* ---- copies ---- */

/* One side of copies: blocks, and their shape if they have one. */
typedef struct end {
    const dma_blocks_t *blocks;
    const dma_shape_t *shape; /* may be NULL */
    const dma_side_t *type;   /* irregular; may be NULL */
} end_t;

/* A copy that has not been started: the next block may continue it. */
typedef struct copy {
    dma_location_t dst, src;
    uint64_t bytes;
} copy_t;

static dma_location_t location(const end_t *end, int block)
{
    return (dma_location_t){.addr = (uint64_t)(uintptr_t)dma_blocks_addr(end->blocks, (uint64_t)block),
                            .shape = end->shape ? *end->shape : (dma_shape_t){0}};
}

/* Starts it on the stream. In scope, like the functions below. */
static dma_status_t start_copy(const dma_task_t *task, const copy_t *c)
{
    dma_status_t status = DMA_OK;
    dma_cut_t cut;
    dma_rect_t r;

    dma_cut_begin(&cut, &c->dst, &c->src, c->bytes);
    while (status == DMA_OK && dma_cut_next(&cut, &r)) {
        status = dma_gpu_copy_rect(task->device->rt, task->comm->device->stream, &r);
    }
    return status;
}

/* Does a block continue the copy, on both sides? */
static bool continues(const copy_t *c, const dma_location_t *dst, const dma_location_t *src)
{
    return !dst->shape.row && !src->shape.row && dst->addr == c->dst.addr + c->bytes &&
           src->addr == c->src.addr + c->bytes;
}

/* Starts the copies of a range of blocks, except one (-1: none). Blocks that follow each other are one copy. */
static dma_status_t copy_blocks(const dma_task_t *task, const end_t *to, const end_t *from, dma_range_t range,
                                int except)
{
    copy_t c = {.bytes = 0};
    dma_status_t status = DMA_OK;

    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        dma_location_t dst = location(to, b), src = location(from, b);
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(from->blocks, (uint64_t)b);

        if (bytes && to->type) {
            status = dma_device_copy_typed(task, to->type, dst.addr, src.addr, bytes, false);
        } else if (bytes && from->type) {
            status = dma_device_copy_typed(task, from->type, src.addr, dst.addr, bytes, true);
        } else if (bytes && c.bytes && continues(&c, &dst, &src)) {
            c.bytes += bytes;
        } else if (bytes) {
            status = start_copy(task, &c);
            c = (copy_t){.dst = dst, .src = src, .bytes = bytes};
        }
    }
    return status == DMA_OK ? start_copy(task, &c) : status;
}

static dma_status_t scratch_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                    dma_range_t range)
{
    return copy_blocks(task, &(end_t){.blocks = staged},
                       &(end_t){.blocks = &stage->home,
                                .shape = &task->device->scratch.recv_shape,
                                .type = task->device->scratch.recv_type},
                       range, -1);
}

static dma_status_t scratch_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                    dma_range_t range)
{
    (void)stage;
    return copy_blocks(task, &(end_t){.blocks = staged},
                       &(end_t){.blocks = &task->run.send,
                                .shape = &task->device->scratch.send_shape,
                                .type = task->device->scratch.send_type},
                       range, -1);
}

static dma_status_t scratch_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const struct dma_device_call *d = task->device;
    end_t from = {.blocks = &stage->recv},
          to = {.blocks = &stage->home, .shape = &d->scratch.recv_shape, .type = d->scratch.recv_type};
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    status = copy_blocks(task, &to, &from, (dma_range_t){.end = task->comm->nranks}, except);
    if (status == DMA_OK) {
        status = d->rt->stream_sync(task->comm->device->stream);
    }
    d->rt->leave(&scope);
    return status;
}

static const dma_stage_ops_t scratch_ops = {.recv_in = scratch_recv_in, .send_in = scratch_send_in, .out = scratch_out};

/* ---- the scratch memory of a call ---- */

/* What a call needs it for, in bytes. */
typedef struct need {
    bool recv, send;
    bool moved; /* the buffers are not on the communicator's device */
    uint64_t recv_bytes, send_bytes;
} need_t;

static need_t find_need(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    int n = comm->nranks, sends = dma_blocks_sent(task->coll, n).end;
    bool packs = !dma_device_supports_shapes(comm->device, &d->send_shape, &d->recv_shape);
    need_t need = {.recv = d->recv_scratch || (packs && d->recv_shape.row),
                   .send = !task->in_place && (d->send_scratch || (packs && d->send_shape.row))};

    need.recv_bytes = need.recv ? dma_blocks_all(&task->run.recv, n) : 0;
    need.send_bytes = need.send ? dma_blocks_all(&task->run.send, sends) : 0;
    return need;
}

/* Puts scratch memory in place of sides; in scope. */
static dma_status_t stage_sides(const dma_comm_t *comm, dma_task_t *task, const need_t *need)
{
    struct dma_device_call *d = task->device;
    dma_device_stage_t *scratch = &d->scratch;
    dma_run_t *run = &task->run;
    int n = comm->nranks;
    char *at = (char *)(uintptr_t)comm->device->scratch;
    dma_status_t status = DMA_OK;

    scratch->send_shape = d->send_shape;
    scratch->recv_shape = d->recv_shape;
    scratch->send_type = d->send_type;
    scratch->recv_type = d->recv_type;
    dma_stage_push(task, &scratch->stage, &scratch_ops);
    if (need->recv) {
        dma_blocks_t staged = dma_blocks_packed(&run->recv, n, at, scratch->displs + n);

        status = dma_stage_recv(task, &scratch->stage, &staged, task->in_place);
    }
    if (status == DMA_OK && need->send) {
        dma_blocks_t staged =
            dma_blocks_packed(&run->send, dma_blocks_sent(task->coll, n).end, at + need->recv_bytes, scratch->displs);

        status = dma_stage_send(task, &scratch->stage, &staged);
    }
    if (status == DMA_OK && (need->send || task->in_place)) {
        status = d->rt->stream_sync(comm->device->stream);
    }
    return status;
}

/* Like stage_sides; after an error the call is unchanged. */
static dma_status_t try_stage(const dma_comm_t *comm, dma_task_t *task, const need_t *need)
{
    dma_blocks_t send = task->run.send, recv = task->run.recv;
    dma_stage_t *stages = task->stages;
    dma_status_t status = stage_sides(comm, task, need);

    if (status != DMA_OK) {
        task->run.send = send;
        task->run.recv = recv;
        task->stages = stages;
    }
    return status;
}

/* The sides that have been replaced are contiguous device memory from now on. */
static void replace_sides(struct dma_device_call *d, const need_t *need, const dma_gpu_memory_t *memory)
{
    if (need->recv) {
        d->recv = *memory;
        d->recv_on = true;
        d->recv_shape = (dma_shape_t){0};
        d->recv_type = NULL;
    }
    if (need->send) {
        d->send_on = true;
        d->send_shape = (dma_shape_t){0};
        d->send_type = NULL;
    }
}

/* Counts why the call needs scratch memory, before it is put in place. */
static void note_scratch(dma_comm_t *comm, const struct dma_device_call *d, const need_t *need)
{
    dma_comm_count(comm, DMA_COUNT_calls_scratch);
    if (need->moved) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_device);
        return;
    }
    if (d->recv_scratch && d->recv.reason) {
        dma_comm_note_reason(comm, d->recv.reason);
    }
    if (d->send_scratch && !d->send_type) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_send);
    }
    if (d->send_type || d->recv_type) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_type);
    }
    if (!dma_device_supports_shapes(comm->device, &d->send_shape, &d->recv_shape)) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_shape);
    }
}

/* In scope. */
static dma_status_t use_scratch(dma_comm_t *comm, dma_task_t *task, bool moved)
{
    struct dma_device_comm *dc = comm->device;
    struct dma_device_call *d = task->device;
    need_t need = find_need(comm, task);
    uint64_t bytes = need.recv_bytes + need.send_bytes + 1;
    dma_gpu_memory_t memory = d->recv;
    dma_status_t status = reserve_scratch(dc, d->rt, bytes);

    need.moved = moved;

    if (status == DMA_OK && need.recv) {
        dma_gpu_classify(d->rt, dc->scratch, bytes, &memory);
        status = memory.exportable ? DMA_OK : DMA_UNSUPPORTED;
    }
    if (status == DMA_OK) {
        status = try_stage(comm, task, &need);
    }
    if (status == DMA_OK) {
        note_scratch(comm, d, &need);
        replace_sides(d, &need, &memory);
    }
    return status;
}

bool dma_device_needs_scratch(const struct dma_device_comm *dc, const struct dma_device_call *d)
{
    return d->device != dc->device->ordinal || d->send_scratch || d->recv_scratch ||
           !dma_device_supports_shapes(dc, &d->send_shape, &d->recv_shape);
}

dma_status_t dma_device_use_scratch(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    int device = d->device;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!(d->scratch.displs = malloc(2 * (size_t)comm->nranks * sizeof(*d->scratch.displs)))) {
        return DMA_ERR_NOMEM;
    }
    if (device != comm->device->device->ordinal) {
        d->device = comm->device->device->ordinal;
        d->recv_scratch = d->send_scratch = true;
    }
    if ((status = d->rt->enter(d->device, &scope)) == DMA_OK) {
        status = use_scratch(comm, task, device != d->device);
        d->rt->leave(&scope);
    }
    if (status != DMA_OK) {
        d->device = device;
    }
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
