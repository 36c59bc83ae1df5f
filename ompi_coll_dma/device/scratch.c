/*
 * Scratch memory on the device, for sides that engines cannot use where they are:
 *
 *     blocks with a shape     of engines that do not copy between shapes
 *     irregular datatypes     with long rows (rows.h)
 *     receive side            memory that peers cannot open (of pools, virtually mapped without a handle type, fine-grained,
 *                             imported)
 *     either side             memory of another device than the communicator's, and of the host if the other side is not
 *
 * Before the rank enters the call, what it sends is copied to scratch memory on the same device. What it receives also
 * arrives there and is copied to its place after the call. The runtime does these copies (copies.c). Peers see a contiguous
 * buffer of plain memory and need not know.
 *
 *     scratch   | blocks to receive | blocks to send |     taken by one call (lease.h)
 *
 * If the scratch memory is smaller than that, because it would exceed the bound or does not fit on the device, the call is
 * carried out in pieces by all ranks (pieces.c). If there is none, the call is staged in host memory. Functions with the note
 * "in scope" need the runtime's scope of the device (enter, leave).
 *
 * Calls in pinned or managed memory (resolve.c) are carried out in pieces in any case: so the copies from the host, the engines
 * and the copies to the host work at once, and nothing has to be taken back if not all ranks have such memory.
 */
#include <stdlib.h>

#include "device/device.h"

#define LINK_PIECES 8                   /* of a call by links at least, so that the copies overlap */
#define LINK_LEAST  (UINT64_C(1) << 20) /* bytes: a piece costs as much time as 1 MiB on a link, beside the copies */

static dma_status_t scratch_recv_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                    dma_range_t range)
{
    const struct dma_device_call *d = task->device;

    return dma_device_copy_blocks(
        task->comm, d->memory->stream[0], &(dma_device_end_t){.blocks = staged},
        &(dma_device_end_t){.blocks = &stage->home, .shape = &d->scratch.recv_shape, .type = d->scratch.recv_type},
        staged, range, -1);
}

static dma_status_t scratch_send_in(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                                    dma_range_t range)
{
    const struct dma_device_call *d = task->device;

    (void)stage;
    return dma_device_copy_blocks(
        task->comm, d->memory->stream[0], &(dma_device_end_t){.blocks = staged},
        &(dma_device_end_t){.blocks = &task->run.send, .shape = &d->scratch.send_shape, .type = d->scratch.send_type},
        staged, range, -1);
}

static dma_status_t scratch_out(const dma_task_t *task, const dma_stage_t *stage, int except)
{
    struct dma_device_call *d = task->device;
    dma_device_end_t from = {.blocks = &stage->recv},
                     to = {.blocks = &stage->home, .shape = &d->scratch.recv_shape, .type = d->scratch.recv_type};
    dma_gpu_scope_t scope;
    dma_status_t status = d->rt->enter(d->device, &scope);

    if (status != DMA_OK) {
        return status;
    }
    status = dma_device_copy_blocks(task->comm, d->memory->stream[0], &to, &from, &stage->recv,
                                    (dma_range_t){.end = task->comm->nranks}, except);
    if (status == DMA_OK) {
        status = d->rt->stream_sync(d->memory->stream[0]);
    }
    d->rt->leave(&scope);
    if (status == DMA_OK) {
        dma_device_put_scratch(task->comm->proc, d, false); /* the next call may begin before the task is dropped */
    }
    return status;
}

static const dma_stage_ops_t scratch_ops = {.recv_in = scratch_recv_in, .send_in = scratch_send_in, .out = scratch_out};

/* ---- the scratch memory of a call ---- */

/* What a call needs it for, in bytes. */
typedef struct need {
    bool recv, send;
    bool moved; /* the buffers are not on the communicator's device */
    uint64_t recv_bytes, send_bytes;
    uint64_t blocks; /* that are replaced */
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
    need.blocks = (need.recv ? (uint64_t)n : 0) + (need.send ? (uint64_t)sends : 0);
    return need;
}

/* Puts scratch memory in place of sides; in scope. */
static dma_status_t stage_sides(const dma_comm_t *comm, dma_task_t *task, const need_t *need)
{
    struct dma_device_call *d = task->device;
    dma_device_stage_t *scratch = &d->scratch;
    dma_run_t *run = &task->run;
    int n = comm->nranks;
    char *at = (char *)(uintptr_t)d->memory->addr;
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
        status = d->rt->stream_sync(d->memory->stream[0]);
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
static void replace_sides(struct dma_device_call *d, const need_t *need)
{
    if (need->recv) {
        d->recv = d->memory->about;
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
    if (d->brief) {
        dma_ipc_use_brief(comm->proc->ipc, &d->recv);
    }
    if (d->send_scratch && !d->send_type) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_device);
    }
    if (d->send_type || d->recv_type || !dma_device_supports_shapes(comm->device, &d->send_shape, &d->recv_shape)) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_type);
    }
}

/* The scratch memory holds the whole call; in scope. */
static dma_status_t use_whole(dma_comm_t *comm, dma_task_t *task, const need_t *need)
{
    struct dma_device_call *d = task->device;
    dma_status_t status = DMA_ERR_NOMEM;

    if (!d->scratch.displs) { /* else of an attempt before */
        d->scratch.displs = malloc(2 * (size_t)comm->nranks * sizeof(*d->scratch.displs));
    }
    if (d->scratch.displs) {
        status = try_stage(comm, task, need);
    }
    if (status == DMA_OK) {
        note_scratch(comm, d, need);
        replace_sides(d, need);
    }
    return status;
}

/* The call goes in pieces of at most `most` bytes, if all ranks can carry it out with engines. Nothing is copied yet. */
static void use_pieces(dma_comm_t *comm, struct dma_device_call *d, const need_t *need, uint64_t most)
{
    note_scratch(comm, d, need);
    d->piece = dma_piece_of(d->memory->bytes, need->blocks);
    if (d->piece < most && !(d->by_link && d->piece >= LINK_LEAST)) {
        dma_comm_note_reason(comm, DMA_REASON_scratch_bound);
    }
    d->piece = d->piece < most ? d->piece : most;
    d->piece_recv = need->recv;
    d->piece_send = need->send;
}

/* Bytes of a piece of a call by links. */
static uint64_t link_piece(const dma_task_t *task)
{
    uint64_t piece = (dma_device_largest_received(task) / LINK_PIECES / DEVICE_PIECE_UNIT + 1) * DEVICE_PIECE_UNIT;

    return piece < LINK_LEAST ? LINK_LEAST : piece;
}

/* Peers must be able to open what is received there. */
static dma_status_t take_scratch(const dma_comm_t *comm, struct dma_device_call *d, uint64_t want, uint64_t least)
{
    dma_status_t status = dma_lease_take(comm->proc,
                                         &(dma_lease_want_t){.kind = DMA_LEASE_DEVICE,
                                                             .rt = d->rt,
                                                             .device = d->device,
                                                             .comm = comm,
                                                             .bytes = want,
                                                             .least = least,
                                                             .streams = 2,
                                                             .events = 2 * DMA_PIECE_HALVES},
                                         &d->memory);

    if (status != DMA_OK) {
        d->memory = NULL;
    } else if (!d->memory->about.exportable) {
        dma_device_put_scratch(comm->proc, d, false);
        status = DMA_UNSUPPORTED;
    }
    return status;
}

static dma_status_t use_scratch(dma_comm_t *comm, dma_task_t *task, bool moved)
{
    struct dma_device_call *d = task->device;
    need_t need = find_need(comm, task);
    uint64_t piece = d->by_link ? link_piece(task) : UINT64_MAX;
    uint64_t want = d->by_link ? dma_piece_bytes(piece, need.blocks) : need.recv_bytes + need.send_bytes + 1;
    dma_gpu_scope_t scope;
    dma_status_t status;

    need.moved = moved;
    status = take_scratch(comm, d, want, dma_piece_bytes(DMA_LEAST_PIECE, need.blocks));
    if (status != DMA_OK) {
        return status;
    }
    if (d->brief && d->memory->bytes < want) { /* pieces would concern all ranks: peers open the buffer instead */
        dma_device_put_scratch(comm->proc, d, false);
        return DMA_ERR_NOMEM;
    }
    if (d->by_link || d->memory->bytes < want) {
        use_pieces(comm, d, &need, piece);
        return DMA_OK;
    }
    if ((status = d->rt->enter(d->device, &scope)) == DMA_OK) {
        status = use_whole(comm, task, &need);
        d->rt->leave(&scope);
    }
    if (status != DMA_OK) {
        d->memory->copies = true;
        dma_device_put_scratch(comm->proc, d, false); /* no peer knows of it */
    }
    return status;
}

bool dma_device_needs_scratch(const struct dma_device_comm *dc, const struct dma_device_call *d)
{
    return d->device != dc->device->ordinal || d->send_scratch || d->recv_scratch ||
           !dma_device_supports_shapes(dc, &d->send_shape, &d->recv_shape);
}

void dma_device_check_export(const dma_comm_t *comm, struct dma_device_call *d)
{
    const struct dma_device_comm *dc = comm->device && comm->device->device ? comm->device : NULL;

    if (d->recv.mapped && dc && (dc->mapped_off || !dma_ipc_shares_mapped(comm->proc->ipc))) {
        d->recv.mapped = d->recv.exportable = false;
        d->recv.reason = DMA_REASON_memory_unshared;
        d->recv_scratch = true;
    } else if (d->recv.exportable && !d->recv_scratch && dc && !dma_ipc_may_export(comm->proc->ipc, &d->recv)) {
        d->recv.exportable = false;
        d->recv.reason = DMA_REASON_memory_tied;
        d->recv_scratch = true;
    }
}

/* A copy of so many bytes inside of the device takes less time than opening memory does. */
#define BRIEF_MOST  (UINT64_C(32) << 20)
#define BRIEF_PARTS 4 /* and may take this part of all scratch memory */

void dma_device_check_brief(const dma_comm_t *comm, const dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    uint64_t bytes, most = comm->proc->params.scratch_bytes / BRIEF_PARTS;

    if (!d->recv.exportable || d->recv_scratch || d->recv_shape.row || !comm->device || !comm->device->device ||
        !dma_ipc_is_brief(comm->proc->ipc, &d->recv)) {
        return;
    }
    bytes = dma_blocks_all(&task->run.recv, comm->nranks);
    if (bytes <= BRIEF_MOST && bytes <= most) {
        d->recv.exportable = false;
        d->recv.reason = DMA_REASON_memory_brief;
        d->recv_scratch = d->brief = true;
    }
}

bool dma_device_undo_brief(struct dma_device_call *d)
{
    if (!d->brief) {
        return false;
    }
    d->brief = false;
    d->recv.exportable = true;
    d->recv.reason = DMA_REASON_NONE;
    d->recv_scratch = false;
    return true;
}

dma_status_t dma_device_use_scratch(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    bool recv = d->recv_scratch, send = d->send_scratch;
    dma_status_t status;

    d->home_device = d->device;
    if (d->device != comm->device->device->ordinal) {
        d->device = comm->device->device->ordinal;
        d->recv_scratch = d->send_scratch = true;
    }
    status = use_scratch(comm, task, d->device != d->home_device);
    if (status != DMA_OK) {
        d->device = d->home_device;
        d->recv_scratch = recv;
        d->send_scratch = send;
    }
    return status;
}

void dma_device_put_scratch(dma_proc_t *proc, struct dma_device_call *d, bool failed)
{
    if (d->memory) {
        if (failed) {
            d->memory->copies = true;
            dma_lease_lose(proc, d->memory);
        } else {
            (void)dma_lease_give_back(proc, d->memory);
        }
        d->memory = NULL;
    }
}
