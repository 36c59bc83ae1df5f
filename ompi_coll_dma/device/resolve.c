/*
 * Device memory at the seam: which calls an engine may serve, and staging for those that it does not.
 *
 * An engine may serve a call whose sides are dense or have a shape (gpu/shape.h), whose receive buffer lies in one
 * allocation that other processes can open, and whose send buffer is memory of the same device. Everything else that has
 * device memory in it is staged: packed into host memory before the call, unpacked behind it. Bytes of device memory are
 * only ever moved by the runtime.
 */
#include <stdlib.h>
#include <string.h>

#include "core/resolve.h"
#include "device/device.h"

/* Of `count` elements from `at` on. */
static dma_span_t span_of_block(const dma_side_t *side, char *at, size_t count)
{
    ptrdiff_t last = (ptrdiff_t)(count - 1) * side->extent;
    char *low = at + side->lb + (last < 0 ? last : 0), *high = at + side->ub + (last > 0 ? last : 0);

    return (dma_span_t){.first = low, .bytes = high > low ? (uint64_t)(high - low) : 0};
}

dma_span_t dma_device_span(const dma_side_t *side, int blocks)
{
    char *low = NULL, *high = NULL;

    for (int b = 0; b < blocks; b++) {
        size_t count = dma_side_count(side, b);
        dma_span_t block;

        if (!count || !side->size) {
            continue;
        }
        block = span_of_block(side, dma_side_addr(side, b), count);
        low = !low || block.first < low ? block.first : low;
        high = !high || block.first + block.bytes > high ? block.first + block.bytes : high;
    }
    return (dma_span_t){.first = low, .bytes = (uint64_t)(high - low)};
}

dma_gpu_memory_t dma_device_memory(const dma_gpu_runtime_t *rt, const dma_span_t *span)
{
    dma_gpu_memory_t m = {.kind = DMA_GPU_HOST, .device = -1};

    if (span->bytes) {
        dma_gpu_classify(rt, (uint64_t)(uintptr_t)span->first, span->bytes, &m);
    }
    return m;
}

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

dma_status_t dma_device_pack(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *to)
{
    char *at = dma_side_addr(side, block), *bounce;
    dma_span_t span = span_of_block(side, at, count);
    dma_status_t status;

    if (side->dense) {
        return dma_device_copy(side->runtime, side->device, to, at, count * side->size);
    }
    /* The convertor reads host memory: the whole stretch comes over first, holes and all. */
    if (!(bounce = malloc(span.bytes))) {
        return DMA_ERR_NOMEM;
    }
    status = dma_device_copy(side->runtime, side->device, bounce, span.first, span.bytes);
    if (status == DMA_OK) {
        status = comm->host->pack(bounce + (at - span.first), count, side->type, to, count * side->size);
    }
    free(bounce);
    return status;
}

dma_status_t dma_device_unpack(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count, const char *from)
{
    dma_writer_t *writer;
    dma_status_t status;

    if (side->dense) {
        return dma_device_copy(side->runtime, side->device, at, from, count * side->size);
    }
    status = dma_write_begin(comm->proc, side->runtime, side->device, &writer);
    if (status == DMA_OK) {
        status = dma_write_elements(writer, comm->host, side, at, count, from, true);
        status = dma_write_end(comm->proc, writer, status);
    }
    return status;
}

/* Sides in the terms of what an engine may serve. */
static bool served(const dma_call_t *call, const dma_gpu_memory_t *send, const dma_gpu_memory_t *recv)
{
    if (!call->recv.dense || !recv->exportable) {
        return false;
    }
    /* a rank that has nothing to send to anybody has no send buffer to speak of */
    return call->in_place || (call->send.dense && (dma_gpu_kind_on_device(send->kind) || !send->base) &&
                              (send->device == recv->device || send->kind == DMA_GPU_HOST));
}

/* For those who leave it to us that what has been started on the default stream is over. */
static dma_status_t sync_default(const dma_gpu_runtime_t *rt, int device)
{
    dma_gpu_scope_t scope;
    dma_status_t status = rt->enter(device, &scope);

    if (status == DMA_OK) {
        status = rt->default_sync();
        rt->leave(&scope);
    }
    return status;
}

/* What the sides of a call are. */
typedef struct sides {
    dma_gpu_memory_t send, recv;
    bool send_on, recv_on; /* device memory */
    bool served;           /* an engine could move them */
    dma_call_t call;       /* the same, or with addresses of first bytes where blocks have a shape: */
    dma_shape_t send_shape, recv_shape;
} sides_t;

/* Sides that have a shape become such that can be used where they are. */
static void find_shapes(const dma_comm_t *comm, sides_t *s)
{
    bool gathers = dma_coll_gathers(s->call.coll);

    if (s->call.in_place && !gathers) {
        return; /* places are exchanged, and nobody knows the other's shape */
    }
    (void)dma_device_shape(comm, &s->call.recv, comm->nranks, &s->recv_shape);
    if (!s->call.in_place) {
        (void)dma_device_shape(comm, &s->call.send, gathers ? 1 : comm->nranks, &s->send_shape);
    }
}

static sides_t look_at(const dma_comm_t *comm, const dma_call_t *call, const dma_gpu_runtime_t *rt)
{
    dma_span_t recv_span = dma_device_span(&call->recv, comm->nranks), send_span = {0};
    sides_t s = {.recv = dma_device_memory(rt, &recv_span), .call = *call};

    s.send = s.recv;
    if (!call->in_place) {
        send_span = dma_device_span(&call->send, dma_coll_gathers(call->coll) ? 1 : comm->nranks);
        s.send = dma_device_memory(rt, &send_span);
    }
    if (!recv_span.bytes && dma_gpu_kind_on_device(s.send.kind)) {
        s.recv = s.send; /* nothing comes: peers can be shown any memory, and those that exchange are not held up */
    }
    s.recv_on = dma_gpu_kind_on_device(s.recv.kind);
    s.send_on = dma_gpu_kind_on_device(s.send.kind);
    if (s.recv_on && (call->in_place || s.send_on || !send_span.bytes)) {
        find_shapes(comm, &s);
        s.served = served(&s.call, &s.send, &s.recv);
    }
    if (!s.served) {
        s.call = *call;
        s.send_shape = s.recv_shape = (dma_shape_t){0};
    }
    return s;
}

/* Over several nodes: sides that can be used where they are. What the ranks of a node exchange of it they judge for
 * themselves; so any kind of device memory will do. */
static bool relays(const dma_comm_t *comm, const dma_call_t *call, const sides_t *s)
{
    return comm->cluster && call->recv.dense && (call->in_place || call->send.dense) &&
           (!s->send_on || !s->recv_on || s->send.device == s->recv.device);
}

bool dma_device_serves(dma_comm_t *comm, const dma_call_t *call)
{
    const dma_gpu_runtime_t *rt = comm->proc->runtime ? comm->proc->runtime : dma_gpu_runtime_loaded();
    sides_t s;

    if (!rt) {
        return false;
    }
    s = look_at(comm, call, rt);
    return s.served && dma_device_can(dma_device_comm(comm, rt, s.recv.device), &s.send_shape, &s.recv_shape);
}

dma_status_t dma_device_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, const dma_gpu_runtime_t *rt)
{
    sides_t s = look_at(comm, call, rt);
    struct dma_device_call *d;

    if (!s.recv_on && !s.send_on) {
        return DMA_UNSUPPORTED;
    }
    if (!(d = calloc(1, sizeof(*d)))) {
        return DMA_ERR_NOMEM;
    }
    d->rt = rt;
    d->device = s.recv_on ? s.recv.device : s.send.device;
    d->recv = s.recv;
    d->send_shape = s.send_shape;
    d->recv_shape = s.recv_shape;
    d->served = s.served;
    if (relays(comm, call, &s)) {
        d->relayed = true;
        d->send_on = s.send_on;
        d->recv_on = s.recv_on;
        d->send_shape = d->recv_shape = (dma_shape_t){0};
        s.call = *call;
    }
    d->phase = d->served || d->relayed ? DEVICE_MEET : DEVICE_ON_HOST;
    task->device = d;
    if (comm->proc->params.stream_sync) {
        dma_status_t status = sync_default(rt, d->device);

        if (status != DMA_OK) {
            return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
        }
    }
    s.call.recv.runtime = s.recv_on && !d->served && !d->relayed ? rt : NULL;
    s.call.recv.device = s.recv.device;
    s.call.send.runtime = s.send_on && !d->served && !d->relayed ? rt : NULL;
    s.call.send.device = s.send.device;
    return dma_task_resolve(comm, task, &s.call);
}

/* ---- staging what an engine could have served ---- */

uint64_t dma_blocks_all(const dma_blocks_t *blocks, int n)
{
    uint64_t all = 0;

    for (int b = 0; b < n; b++) {
        all += dma_blocks_bytes(blocks, (uint64_t)b);
    }
    return all;
}

dma_blocks_t dma_blocks_packed(const dma_blocks_t *blocks, int n, char *memory, int64_t *displs)
{
    dma_blocks_t packed = *blocks;
    int64_t at = 0;

    packed.addr = memory;
    for (int b = 0; blocks->counts && b < n; b++) {
        displs[b] = at;
        at += (int64_t)blocks->counts[b];
    }
    packed.displs = blocks->counts ? displs : NULL;
    return packed;
}

/* Blocks first .. last - 1, into the staging. The shape is that of the user's. */
static dma_status_t take_blocks(const struct dma_device_call *d, const dma_blocks_t *to, const dma_blocks_t *from,
                                const dma_shape_t *shape, int first, int last)
{
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = first; status == DMA_OK && b < last; b++) {
        uint64_t bytes = dma_blocks_bytes(from, (uint64_t)b);
        char *dst = dma_blocks_addr(to, (uint64_t)b), *src = dma_blocks_addr(from, (uint64_t)b);

        if (bytes) {
            status = shape->row ? dma_device_take(d->rt, dst, src, shape, bytes)
                                : d->rt->copy((uint64_t)(uintptr_t)dst, (uint64_t)(uintptr_t)src, bytes);
        }
    }
    d->rt->leave(&scope);
    return status;
}

/* Out of the staging: all blocks but one. */
static dma_status_t give_blocks(dma_proc_t *proc, const struct dma_device_call *d, const dma_blocks_t *from, int n,
                                int except)
{
    dma_writer_t *writer;
    dma_status_t status = dma_write_begin(proc, d->rt, d->device, &writer);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = 0; status == DMA_OK && b < n; b++) {
        dma_location_t dst = {.addr = (uint64_t)(uintptr_t)dma_blocks_addr(&d->home_recv, (uint64_t)b),
                              .shape = d->recv_shape};
        dma_location_t src = {.addr = (uint64_t)(uintptr_t)dma_blocks_addr(from, (uint64_t)b)};

        if (b != except) {
            status = dma_write_shape(writer, &dst, &src, dma_blocks_bytes(from, (uint64_t)b));
        }
    }
    return dma_write_end(proc, writer, status);
}

dma_status_t dma_device_stage(dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    dma_run_t *run = &task->run;
    int n = task->comm->nranks, rank = task->comm->rank, sends = dma_coll_gathers(task->coll) ? 1 : n;
    uint64_t recv = dma_blocks_all(&run->recv, n), send = task->in_place ? 0 : dma_blocks_all(&run->send, sends);
    bool gathers = dma_coll_gathers(task->coll);

    d->phase = DEVICE_ON_HOST;
    d->home_recv = run->recv;
    d->home_send = run->send;
    d->displs = malloc(2 * (size_t)n * sizeof(*d->displs));
    d->staging = malloc(recv + send + 1);
    if (!d->displs || !d->staging) {
        return DMA_ERR_NOMEM;
    }
    run->recv = dma_blocks_packed(&d->home_recv, n, d->staging, d->displs + n);
    if (!task->in_place) {
        run->send = dma_blocks_packed(&d->home_send, sends, d->staging + recv, d->displs);
        return take_blocks(d, &run->send, &d->home_send, &d->send_shape, 0, sends);
    }
    run->send = run->recv;
    if (gathers) {
        run->send = (dma_blocks_t){.addr = dma_blocks_addr(&run->recv, (uint64_t)rank),
                                   .bytes = dma_blocks_bytes(&run->recv, (uint64_t)rank)};
    }
    return take_blocks(d, &run->recv, &d->home_recv, &d->recv_shape, gathers ? rank : 0, gathers ? rank + 1 : n);
}

dma_status_t dma_device_unstage(dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    bool own_kept = task->in_place && dma_coll_gathers(task->coll);
    dma_status_t status = DMA_OK;

    if (d->staging) {
        status =
            give_blocks(task->comm->proc, d, &task->run.recv, task->comm->nranks, own_kept ? task->comm->rank : -1);
    }
    return status == DMA_OK ? dma_device_unpack_shapes(task) : status;
}

void dma_device_drop(dma_task_t *task)
{
    if (task->device->frozen) {
        task->device = NULL; /* the communicator's */
        return;
    }
    free(task->device->staging);
    free(task->device->displs);
    free(task->device->packed_displs);
    free(task->device);
    task->device = NULL;
}
