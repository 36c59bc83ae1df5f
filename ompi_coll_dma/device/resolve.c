/*
 * Resolving a call with device memory: can an engine carry it out, as far as this rank sees?
 *
 * An engine can if the sides are dense, have a shape (gpu/shape.h), or have an irregular datatype with long rows, which
 * scratch memory on the device makes contiguous (rows.h). It uses them where they are if the receive buffer
 * lies in one allocation that other processes can open, and the send buffer is memory of the same device. Else scratch
 * memory of the device replaces them (scratch.c). Large calls with other datatypes go by slots, where their rows are packed piece
 * by piece (slot_copies.c). Any other call with device memory is staged: packed into host memory before the call and unpacked
 * after it.
 *
 * Large calls in pinned or managed memory are calls with device memory, too, if both sides are such memory: the device copies
 * them to scratch memory and back at the speed of its link, in pieces. Nothing is copied before all ranks have entered, so a
 * peer with pageable memory costs this rank nothing: its cores use its buffers where they are.
 */
#include <stdlib.h>
#include <string.h>

#include "core/resolve.h"
#include "device/device.h"

#define LINK_FROM (UINT64_C(4) << 20) /* bytes received: cores copy less pinned and managed memory sooner than links */

dma_span_t dma_device_span(const dma_host_t *host, const dma_side_t *side, int blocks)
{
    char *low = NULL, *high = NULL;

    for (int b = 0; b < blocks; b++) {
        dma_side_t block = dma_side_block(host, side, b);
        dma_span_t span;

        if (!block.count || !block.size) {
            continue;
        }
        span = dma_device_span_of(&block, block.addr, block.count);
        low = !low || span.first < low ? span.first : low;
        high = !high || span.first + span.bytes > high ? span.first + span.bytes : high;
    }
    return (dma_span_t){.first = low, .bytes = (uint64_t)(high - low)};
}

dma_gpu_memory_t dma_device_classify(const dma_gpu_runtime_t *rt, const dma_span_t *span)
{
    dma_gpu_memory_t m = {.kind = DMA_GPU_HOST, .device = -1};

    if (span->bytes) {
        dma_gpu_classify(rt, (uint64_t)(uintptr_t)span->first, span->bytes, &m);
    }
    if (rt->adopt && dma_gpu_kind_on_device(m.kind)) {
        rt->adopt(&m);
    }
    return m;
}

dma_status_t dma_device_sync_stream(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!comm->proc->params.stream_sync) {
        return DMA_OK;
    }
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = rt->default_sync();
        rt->leave(&scope);
    }
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status; /* without the wait the data may be incomplete */
}

/* What the sides of a call are. */
typedef struct sides {
    dma_gpu_memory_t send, recv;
    bool sends;                      /* any bytes at all */
    bool send_on, recv_on;           /* is device memory */
    bool by_link;                    /* neither is, and a device copies both all the same */
    bool send_scratch, recv_scratch; /* is replaced by scratch memory */
    bool send_typed, recv_typed;     /* has an irregular datatype, and the rows are long */
    int device;                      /* whose engine moves them */
    bool served;                     /* an engine could move them */
    bool rows;                       /* none could; but slots can, row by row */
    dma_reason_t why;                /* it could not */
    dma_call_t given;                /* the caller's, except that a side without data is dense, whatever its datatype */
    dma_call_t call; /* the same, except that a side with a shape begins at the first byte of its data */
    dma_shape_t send_shape, recv_shape;
} sides_t;

/* Finds the shapes of the sides. A side that has one can be used where it is. */
static void find_shapes(const dma_comm_t *comm, sides_t *s)
{
    bool gathers = dma_coll_gathers(s->call.coll);

    if (s->call.in_place && !gathers) {
        return; /* blocks are exchanged in place, and a rank does not know the shape of its peer's blocks */
    }
    (void)dma_device_shape(comm, &s->call.recv, comm->nranks, &s->recv_shape);
    if (!s->call.in_place) {
        (void)dma_device_shape(comm, &s->call.send, gathers ? 1 : comm->nranks, &s->send_shape);
    }
}

/* Irregular sides in device memory. A communicator over several nodes packs them in host memory. */
static void find_types(const dma_comm_t *comm, sides_t *s)
{
    bool packs = !comm->route->uses_device_memory;

    s->recv_typed = packs && s->recv_on && !s->call.recv.dense && dma_device_has_long_rows(comm, &s->call.recv);
    s->send_typed = packs && s->send_on && !s->call.in_place && !s->call.send.dense &&
                    dma_device_has_long_rows(comm, &s->call.send);
    s->call.recv.dense = s->call.recv.dense || s->recv_typed;
    s->call.send.dense = s->call.send.dense || s->send_typed;
}

/* Could an engine move the data of these sides, which are dense or have a shape? It can copy what it sends from any memory
 * of its device. What it receives must be memory that peers can open. Else there is scratch memory. */
static void find_engine(const dma_comm_t *comm, sides_t *s)
{
    bool readable = dma_gpu_kind_is_known(s->send.kind) && dma_gpu_kind_is_known(s->recv.kind);
    bool dense = s->call.recv.dense && (s->call.in_place || s->call.send.dense);

    s->recv_scratch = !s->recv.exportable || s->recv_typed;
    s->send_scratch = !s->call.in_place && s->sends && (!s->send_on || s->send.device != s->device || s->send_typed);
    /* A communicator over several nodes leaves that to the communicator of the node's ranks. */
    s->served = dense && ((!s->recv_scratch && !s->send_scratch) || (readable && !comm->route->uses_device_memory));
    s->why = dense ? DMA_REASON_memory_kind : DMA_REASON_staged_type;
}

/* May a device copy this host memory, although cores could? */
static bool is_linked(const dma_gpu_memory_t *memory)
{
    bool kind = memory->kind == DMA_GPU_HOST_PINNED || memory->kind == DMA_GPU_HOST_REGISTERED ||
                memory->kind == DMA_GPU_MANAGED;

    return kind && memory->device >= 0;
}

static bool goes_by_link(const dma_comm_t *comm, const sides_t *s, uint64_t received)
{
    return received >= LINK_FROM && comm->nranks > 1 && !comm->route->uses_device_memory && s->call.recv.dense &&
           (s->call.in_place || s->call.send.dense) && s->sends && is_linked(&s->recv) && is_linked(&s->send);
}

/* Has the side data that a device cannot pack: in host memory, or with a datatype of its own for each block? */
static bool needs_cores(const dma_side_t *side, bool on_device)
{
    return !side->dense && (!on_device || side->types);
}

/* No engine can move the data because of their datatypes: can the device pack and unpack them row by row? */
static void find_rows(const dma_comm_t *comm, sides_t *s)
{
    bool cores =
        needs_cores(&s->call.recv, s->recv_on) || (!s->call.in_place && needs_cores(&s->call.send, s->send_on));

    if (s->why == DMA_REASON_memory_kind || cores || comm->route->uses_device_memory || !comm->host->type_strips) {
        return;
    }
    s->rows = true;
    s->recv_typed = s->recv_on && !s->call.recv.dense;
    s->send_typed = s->send_on && !s->call.in_place && !s->call.send.dense;
    s->call.recv.dense = s->call.recv.dense || s->recv_typed;
    s->call.send.dense = s->call.send.dense || s->send_typed;
}

/* Does the span go beyond its allocation? What the runtime says of virtually mapped memory may be a part of it. */
static bool is_scattered(const dma_gpu_memory_t *m, const dma_span_t *span)
{
    uint64_t skip = (uint64_t)(uintptr_t)span->first - m->base;

    return span->bytes && dma_gpu_kind_on_device(m->kind) && m->kind != DMA_GPU_DEVICE_VMM && m->size &&
           (skip > m->size || span->bytes > m->size - skip);
}

static sides_t inspect_sides(const dma_comm_t *comm, const dma_call_t *call, const dma_gpu_runtime_t *rt)
{
    dma_span_t recv_span = dma_device_span(comm->host, &call->recv, comm->nranks), send_span = {0};
    sides_t s = {.recv = dma_device_classify(rt, &recv_span), .given = *call};

    s.send = s.recv;
    if (!call->in_place) {
        send_span = dma_device_span(comm->host, &call->send, dma_coll_gathers(call->coll) ? 1 : comm->nranks);
        s.send = dma_device_classify(rt, &send_span);
    }
    s.given.recv.scattered = is_scattered(&s.recv, &recv_span);
    s.given.send.scattered = is_scattered(&s.send, &send_span);
    s.given.recv.dense = call->recv.dense || !recv_span.bytes;
    s.given.send.dense = call->send.dense || !send_span.bytes;
    s.call = s.given;
    if (!recv_span.bytes && dma_gpu_kind_on_device(s.send.kind)) {
        s.recv =
            s.send; /* nothing is received: publish any device memory, so that the other ranks can use their engines */
    }
    s.sends = call->in_place || send_span.bytes;
    s.recv_on = dma_gpu_kind_on_device(s.recv.kind);
    s.send_on = dma_gpu_kind_on_device(s.send.kind);
    s.device = s.recv_on ? s.recv.device : s.send.device;
    if (!s.recv_on && !s.send_on && goes_by_link(comm, &s, recv_span.bytes)) {
        s.by_link = s.served = s.recv_scratch = true;
        s.send_scratch = !call->in_place;
    } else if (s.recv_on || s.send_on) {
        find_shapes(comm, &s);
        find_types(comm, &s);
        find_engine(comm, &s);
    }
    if (!s.served) {
        s.call = s.given;
        s.send_shape = s.recv_shape = (dma_shape_t){0};
        s.send_typed = s.recv_typed = false;
    }
    if (!s.served && (s.recv_on || s.send_on)) {
        find_rows(comm, &s);
    }
    return s;
}

/* Over several nodes: can the sides be used where they are? Any kind of device memory can. What the engines can do with
 * it is decided later, by the communicator of the node's ranks. */
static bool is_relayed(const dma_comm_t *comm, sides_t *s)
{
    bool dense = s->given.recv.dense && (s->given.in_place || s->given.send.dense);

    if (!comm->route->uses_device_memory) {
        return false;
    }
    s->why = dense ? DMA_REASON_scratch_device : DMA_REASON_staged_type;
    return dense && (!s->send_on || !s->recv_on || s->send.device == s->recv.device);
}

bool dma_device_serves(dma_comm_t *comm, const dma_call_t *call)
{
    const dma_gpu_runtime_t *rt = dma_proc_runtime(comm->proc);
    struct dma_device_comm *dc = NULL;
    bool serves = false;
    dma_reason_t why;
    sides_t s;

    if (!rt) {
        return false;
    }
    s = inspect_sides(comm, call, rt);
    if (!s.recv_on && !s.send_on) {
        return false;
    }
    dma_comm_lock(comm);
    if (s.served) {
        dc = dma_device_comm(comm, rt, s.device, &why);
        serves = dc && dc->device->engine && !s.send_scratch && !s.recv_scratch &&
                 dma_device_supports_shapes(dc, &s.send_shape, &s.recv_shape);
    }
    if (!serves) {
        dma_comm_note_reason(comm, DMA_REASON_unprepared);
    }
    dma_comm_unlock(comm);
    return serves;
}

/* The caller's sides are gone when the call is. */
static void keep_types(struct dma_device_call *d, const sides_t *s, const dma_call_t *call)
{
    d->sides[DMA_SIDE_SEND] = call->send;
    d->sides[DMA_SIDE_RECV] = call->recv;
    d->sides[DMA_SIDE_SEND].counts = d->sides[DMA_SIDE_RECV].counts = NULL;
    d->sides[DMA_SIDE_SEND].runtime = d->sides[DMA_SIDE_RECV].runtime = d->rt;
    d->sides[DMA_SIDE_SEND].scattered = s->given.send.scattered;
    d->sides[DMA_SIDE_RECV].scattered = s->given.recv.scattered;
    d->sides[DMA_SIDE_SEND].device = s->send.device;
    d->sides[DMA_SIDE_RECV].device = s->recv.device;
    d->send_type = s->send_typed ? &d->sides[DMA_SIDE_SEND] : NULL;
    d->recv_type = s->recv_typed ? &d->sides[DMA_SIDE_RECV] : NULL;
}

dma_status_t dma_device_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, const dma_gpu_runtime_t *rt)
{
    sides_t s = inspect_sides(comm, call, rt);
    struct dma_device_call *d;
    dma_status_t status;
    bool foreign; /* sides in device memory are packed before the call */

    if (!s.recv_on && !s.send_on && !s.by_link) {
        return DMA_UNSUPPORTED;
    }
    if (!(d = calloc(1, sizeof(*d)))) {
        return DMA_ERR_NOMEM;
    }
    d->rt = rt;
    d->device = s.device;
    d->recv = s.recv;
    d->send_on = s.send_on;
    d->recv_on = s.recv_on;
    d->by_link = s.by_link;
    d->send_scratch = s.send_scratch;
    d->recv_scratch = s.recv_scratch;
    d->send_shape = s.send_shape;
    d->recv_shape = s.recv_shape;
    d->served = s.served;
    d->rows = s.rows;
    keep_types(d, &s, call);
    if (is_relayed(comm, &s)) {
        d->relayed = true;
        d->send_shape = d->recv_shape = (dma_shape_t){0};
        s.call = s.given;
    }
    d->why = s.why;
    foreign = !d->served && !d->relayed && !d->rows;
    d->staged = foreign;
    task->device = d;
    task->memory = &dma_device_memory;
    task->route = &dma_route_device;
    if ((status = dma_device_sync_stream(comm, rt, d->device)) != DMA_OK) {
        return status;
    }
    s.call.recv.runtime = s.recv_on && foreign ? rt : NULL;
    s.call.recv.device = s.recv.device;
    s.call.send.runtime = s.send_on && foreign ? rt : NULL;
    s.call.send.device = s.send.device;
    return dma_task_resolve(comm, task, &s.call);
}

void dma_device_drop(dma_task_t *task)
{
    if (!task->device->persistent) { /* else the state belongs to the communicator */
        dma_device_put_scratch(task->comm->proc, task->device, task->status != DMA_OK);
        dma_device_put_pins(task->comm->proc, task->device);
        free(task->device->host.displs);
        free(task->device->scratch.displs);
        free(task->device);
    }
    task->device = NULL;
    task->memory = NULL;
}
