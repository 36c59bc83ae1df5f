/*
 * Staging in host memory: for calls that no engine of this rank can carry out, and for calls that the engines of some
 * other rank cannot.
 *
 * Only the runtime accesses device memory, never the cores. The blocks that replace the user's are in pinned memory if the
 * bound allows it (pins.h): then all contiguous blocks of a side are copied without a wait in between, at the speed of the
 * link, and repeated calls allocate no memory for data. Otherwise they are in pageable memory, and go through two slots of
 * pinned memory.
 */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/write.h"

/* Copies a block with a shape to packed host memory. */
static dma_status_t copy_shaped(const dma_task_t *task, char *to, char *block, const dma_shape_t *shape, uint64_t bytes)
{
    const struct dma_device_call *d = task->device;
    dma_proc_t *proc = task->comm->proc;
    dma_span_t span = {.first = block, .bytes = dma_shape_span(shape, bytes)};
    dma_rects_t rects = {.visit = dma_rect_move};
    dma_stretch_t s;
    dma_status_t status = dma_device_read_stretch(proc, d->rt, d->device, &span, &s);

    if (status == DMA_OK) {
        status = dma_rects_list(&rects, &(dma_place_t){.addr = (uint64_t)(uintptr_t)to},
                                &(dma_place_t){.addr = (uint64_t)(uintptr_t)s.memory, .shape = shape}, bytes);
        dma_device_drop_stretch(proc, &s);
    }
    return status;
}

/* Packs a block with an irregular datatype. */
static dma_status_t copy_typed(const dma_comm_t *comm, char *to, char *block, const dma_side_t *type, uint64_t bytes)
{
    dma_side_t side = *type;

    side.addr = block;
    return dma_device_pack(comm, &side, 0, bytes / type->size, to);
}

/* Copies of contiguous blocks between the user's memory and ours. */
typedef struct plain {
    const dma_task_t *task;
    dma_lease_t *pin; /* has our memory; NULL: it is pageable */
    bool reads;
} plain_t;

/* In scope. */
static dma_status_t copy_run(void *arg, const dma_rect_t *r)
{
    const plain_t *p = arg;
    const struct dma_device_call *d = p->task->device;
    char *to = (char *)(uintptr_t)r->dst, *from = (char *)(uintptr_t)r->src;

    return p->pin ? dma_pin_start(p->pin, to, from, r->row_bytes)
                  : (p->reads ? dma_device_read : dma_device_write)(p->task->comm->proc, d->rt, d->device, to, from,
                                                                    r->row_bytes);
}

/* Copies contiguous blocks, except one (-1: none). Nothing waits before the end. In scope. */
static dma_status_t copy_plain(const dma_task_t *task, dma_lease_t *pin, const dma_blocks_t *to,
                               const dma_blocks_t *from, dma_range_t range, int except, bool reads)
{
    plain_t plain = {.task = task, .pin = pin, .reads = reads};
    dma_rects_t rects = {.visit = copy_run, .arg = &plain};
    dma_status_t status = DMA_OK;

    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(from, (uint64_t)b);
        dma_place_t dst = {.addr = (uint64_t)(uintptr_t)dma_blocks_addr(to, (uint64_t)b)};
        dma_place_t src = {.addr = (uint64_t)(uintptr_t)dma_blocks_addr(from, (uint64_t)b)};

        status = dma_rects_add(&rects, &dst, &src, bytes);
    }
    status = status == DMA_OK ? dma_rects_end(&rects) : status;
    return status == DMA_OK && pin ? dma_pin_end(pin) : status;
}

static dma_status_t copy_in(const dma_task_t *task, const dma_blocks_t *to, const dma_blocks_t *from,
                            const dma_shape_t *shape, const dma_side_t *type, dma_range_t range, dma_lease_t *pin)
{
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    if (!type && !shape->row) {
        status = copy_plain(task, pin, to, from, range, -1, true);
        range.end = range.first;
    }
    for (int b = range.first; status == DMA_OK && b < range.end; b++) {
        uint64_t bytes = dma_blocks_bytes(from, (uint64_t)b);
        char *dst = dma_blocks_addr(to, (uint64_t)b), *src = dma_blocks_addr(from, (uint64_t)b);

        if (bytes) {
            status = type ? copy_typed(task->comm, dst, src, type, bytes) : copy_shaped(task, dst, src, shape, bytes);
        }
    }
    d->rt->leave(&scope);
    return status;
}

static dma_status_t host_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    return copy_in(task, staged, &stage->home, &task->device->host.recv_shape, task->device->host.recv_type, range,
                   task->device->host.pins[DMA_SIDE_RECV]);
}

static dma_status_t host_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                 dma_range_t range)
{
    (void)stage;
    return copy_in(task, staged, &task->run.send, &task->device->host.send_shape, task->device->host.send_type, range,
                   task->device->host.pins[DMA_SIDE_SEND]);
}

/* Writes blocks with a shape or a datatype. */
static dma_status_t write_rows(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const struct dma_device_call *d = task->device;
    const dma_side_t *type = d->host.recv_type;
    dma_proc_t *proc = task->comm->proc;
    dma_writer_t writer;
    dma_status_t status = dma_writer_begin(&writer, proc, d->rt, d->device);

    if (status != DMA_OK) {
        return status;
    }
    for (int b = 0; status == DMA_OK && b < task->comm->nranks; b++) {
        uint64_t bytes = b == except ? 0 : dma_blocks_bytes(&stage->recv, (uint64_t)b);
        char *to = dma_blocks_addr(&stage->home, (uint64_t)b), *from = dma_blocks_addr(&stage->recv, (uint64_t)b);
        dma_place_t dst = {.addr = (uint64_t)(uintptr_t)to, .shape = &d->host.recv_shape};
        dma_place_t src = {.addr = (uint64_t)(uintptr_t)from};

        if (bytes) {
            status = type ? dma_writer_put_elements(&writer, task->comm->host, type, to, bytes / type->size, from, true)
                          : dma_writer_put(&writer, task->comm->host, &dst, &src, bytes);
        }
    }
    return dma_writer_end(&writer, status);
}

static dma_status_t write_plain(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status == DMA_OK) {
        status = copy_plain(task, d->host.pins[DMA_SIDE_RECV], &stage->home, &stage->recv,
                            (dma_range_t){.end = task->comm->nranks}, except, false);
        d->rt->leave(&scope);
    }
    return status;
}

static dma_status_t host_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    struct dma_device_call *d = task->device;
    dma_status_t status = d->host.recv_type || d->host.recv_shape.row ? write_rows(task, stage, except)
                                                                      : write_plain(task, stage, except);

    if (status == DMA_OK) {
        dma_device_put_pins(task->comm->proc, d); /* the next call may begin before the task is dropped */
    }
    return status;
}

static const dma_stage_ops_t host_ops = {.recv_in = host_recv_in, .send_in = host_send_in, .out = host_out};

/* Host memory for the blocks of a side. Messages of a call that has failed may still use it, so what they get is not pinned:
 * pinned memory is used again. */
static dma_status_t get_memory(dma_task_t *task, dma_device_stage_t *host, int side, uint64_t bytes, char **memory)
{
    const struct dma_device_call *d = task->device;
    dma_comm_t *comm = task->comm;
    dma_status_t status;

    if (comm->state == DMA_COMM_READY && !comm->route->uses_device_memory &&
        (host->pins[side] = dma_pin_get(comm->proc, d->rt, d->device, bytes))) {
        *memory = host->pins[side]->memory;
        return DMA_OK;
    }
    status = dma_staging_get(comm, &host->stage, side, bytes);
    *memory = host->stage.memory[side];
    return status;
}

static dma_status_t stage_side(dma_task_t *task, dma_device_stage_t *host, int side)
{
    bool receives = side == DMA_SIDE_RECV;
    const dma_blocks_t *blocks = receives ? &task->run.recv : &task->run.send;
    int nranks = task->comm->nranks, n = receives ? nranks : dma_blocks_sent(task->coll, nranks).end;
    char *memory;
    dma_status_t status = get_memory(task, host, side, dma_blocks_all(blocks, n), &memory);
    dma_blocks_t staged;

    if (status != DMA_OK) {
        return status;
    }
    staged = dma_blocks_packed(blocks, n, memory, host->displs + (receives ? nranks : 0));
    return receives ? dma_stage_recv(task, &host->stage, &staged, task->in_place)
                    : dma_stage_send(task, &host->stage, &staged);
}

void dma_device_put_pins(dma_proc_t *proc, struct dma_device_call *d)
{
    for (int side = 0; side < 2; side++) {
        if (d->host.pins[side]) {
            (void)dma_lease_give_back(proc, d->host.pins[side]);
            d->host.pins[side] = NULL;
        }
    }
}

dma_status_t dma_device_stage(dma_task_t *task, dma_reason_t reason)
{
    struct dma_device_call *d = task->device;
    dma_status_t status = DMA_OK;

    if (d->by_link || d->joins) {
        return DMA_OK; /* the cores use the buffers where they are */
    }
    dma_comm_count(task->comm, DMA_COUNT_calls_staged);
    dma_comm_note_reason(task->comm, reason);
    if (d->staged) {
        return DMA_OK;
    }
    d->staged = true;
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
        status = stage_side(task, &d->host, DMA_SIDE_RECV);
    }
    if (status == DMA_OK && !task->in_place && (d->send_on || d->send_shape.row)) {
        status = stage_side(task, &d->host, DMA_SIDE_SEND);
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
