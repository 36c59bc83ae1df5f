/*
 * Calls in pieces: for scratch memory that holds only a part of each block.
 *
 * A rank whose scratch memory is too small for a call publishes how many bytes of each block it has room for. The least of
 * these numbers is the size of a piece on all ranks. Every rank knows the largest block of all, so all ranks carry out the
 * same number of pieces: piece k is the GPU plan, run on bytes k * piece .. (k + 1) * piece - 1 of every block. A block that
 * is shorter takes part with what it has, or with nothing.
 *
 * The scratch memory of a call in pieces, two halves for each side that is replaced:
 *
 *     | receive, even pieces | receive, odd pieces | send, even pieces | send, odd pieces |
 *       n blocks of one piece                        one block, or n
 *
 * Other sides, and scratch memory that holds a whole call, are used where they are, from byte k * piece on.
 *
 * So copies into and out of the scratch memory overlap with the engines:
 *
 *     engine              | piece 0 |         | piece 1       |       | piece 2       |
 *     scratch     | in 0  |         | in 1    | out 0 | in 2  |       | out 1 ...
 *
 * The pipeline (pipeline.h) says when copies, votes and runs of engines come. Before engines write piece k, all ranks have voted for
 * it: what they send of it is in place, and the half for what they receive is free, because piece k - 2 has been copied out of it.
 */
#include <string.h>

#include "device/device.h"

static const dma_device_runner_t by_pieces;

/* ---- sizes ---- */

uint64_t dma_piece_bytes(uint64_t piece, uint64_t blocks)
{
    uint64_t bytes;

    return __builtin_mul_overflow(2 * blocks, piece, &bytes) ? UINT64_MAX : bytes;
}

uint64_t dma_piece_of(uint64_t bytes, uint64_t blocks)
{
    uint64_t units = bytes / (2 * blocks) / DEVICE_PIECE_UNIT;

    return (units < UINT32_MAX ? units : UINT32_MAX) * DEVICE_PIECE_UNIT; /* dma_device_info_t.piece has 32 bits */
}

/* ---- where a piece is ---- */

/* The half of the scratch memory for a side of a piece. */
static char *half_of(const dma_comm_t *comm, const dma_task_t *task, bool recv, uint64_t piece)
{
    const struct dma_device_call *d = task->device;
    const dma_device_pieces_t *p = &comm->device->pieces;
    uint64_t n = (uint64_t)comm->nranks, blocks = recv ? n : (uint64_t)dma_blocks_sent(task->coll, comm->nranks).end;
    uint64_t before = recv || !d->piece_recv ? 0 : dma_piece_bytes(p->bytes, n);

    return (char *)(uintptr_t)(d->memory->addr + before + piece % 2 * blocks * p->bytes);
}

/* The blocks of a side of a piece in scratch memory. `counts`, `displs`: room for them. */
static dma_blocks_t in_scratch(const dma_device_pieces_t *p, const dma_blocks_t *side, int n, char *half,
                               uint64_t piece, uint64_t *counts, int64_t *displs)
{
    for (int b = 0; b < n; b++) {
        counts[b] = dma_pipe_part(p->bytes, dma_blocks_bytes(side, (uint64_t)b), piece);
        displs[b] = (int64_t)((uint64_t)b * p->bytes);
    }
    return (dma_blocks_t){.addr = half, .counts = counts, .displs = displs};
}

/* The same where the user has them. `shaped`: the blocks have a shape, which begins with byte 0 of the block. */
static dma_blocks_t in_place(const dma_device_pieces_t *p, const dma_blocks_t *side, int n, bool shaped, uint64_t piece,
                             uint64_t *counts, int64_t *displs)
{
    for (int b = 0; b < n; b++) {
        counts[b] = dma_pipe_part(p->bytes, dma_blocks_bytes(side, (uint64_t)b), piece);
        displs[b] = dma_blocks_addr(side, (uint64_t)b) - side->addr + (shaped ? 0 : (int64_t)(piece * p->bytes));
    }
    return (dma_blocks_t){.addr = side->addr, .counts = counts, .displs = displs};
}

/* ---- copies of this rank ---- */

/* The stream of copies out of the scratch memory. A link to host memory works in both directions at once, and copies of one
 * stream would not. In place, what goes into a half must stay behind what comes out of it. */
static int out_stream(const dma_task_t *task)
{
    return task->device->by_link && !task->in_place;
}

/* Starts copies between a side of the user's and a half of the scratch memory. */
static dma_status_t copy_side(const dma_comm_t *comm, const dma_task_t *task, bool recv, uint64_t piece, bool in,
                              dma_range_t range, int except)
{
    const struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *d = task->device;
    const dma_device_pieces_t *p = &dc->pieces;
    const dma_blocks_t *side = recv ? &p->recv : &p->send;
    dma_blocks_t packed =
        in_scratch(p, side, range.end, half_of(comm, task, recv, piece), piece, p->copy_counts, p->copy_displs);
    dma_device_end_t theirs = {.blocks = side,
                               .shape = recv ? &d->recv_shape : &d->send_shape,
                               .type = recv ? d->recv_type : d->send_type,
                               .skip = piece * p->bytes},
                     ours = {.blocks = &packed};

    return in ? dma_device_copy_blocks(comm, d->memory->stream[0], &ours, &theirs, &packed, range, except)
              : dma_device_copy_blocks(comm, d->memory->stream[out_stream(task)], &theirs, &ours, &packed, range,
                                       except);
}

/* What this rank sends of a piece. In place that is on the receive side. */
static dma_status_t copy_in(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    const struct dma_device_call *d = task->device;
    int n = comm->nranks;

    if (d->piece_send) {
        return copy_side(comm, task, false, piece, true, dma_blocks_sent(task->coll, n), -1);
    }
    if (d->piece_recv && task->in_place) {
        bool gathers = dma_coll_gathers(task->coll);
        dma_range_t range = {.first = gathers ? comm->rank : 0, .end = gathers ? comm->rank + 1 : n};

        return copy_side(comm, task, true, piece, true, range, -1);
    }
    return DMA_OK;
}

static dma_status_t copy_out(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    bool own_kept = task->in_place && dma_coll_gathers(task->coll);

    return task->device->piece_recv ? copy_side(comm, task, true, piece, false, (dma_range_t){.end = comm->nranks},
                                                own_kept ? comm->rank : -1)
                                    : DMA_OK;
}

/* ---- the run of a piece ---- */

/* Where the ranks receive the present piece. */
static void set_targets(const dma_comm_t *comm, uint64_t piece)
{
    const struct dma_device_comm *dc = comm->device;
    const dma_device_pieces_t *p = &dc->pieces;
    uint64_t n = (uint64_t)comm->nranks;

    for (int r = 0; r < comm->nranks; r++) {
        dma_target_t *to = &dc->targets[r];

        *to = p->targets[r];
        if (p->halves[r]) {
            to->addr += piece % 2 * n * p->bytes;
            to->bytes = p->bytes;
            to->displs = NULL;
        } else if (to->shape) {
            to->skip = piece * p->bytes;
        } else {
            to->addr += piece * p->bytes;
        }
    }
}

/* The blocks of this rank in the present piece. */
static void set_sides(const dma_comm_t *comm, dma_task_t *task, uint64_t at)
{
    const struct dma_device_call *d = task->device;
    const dma_device_pieces_t *p = &comm->device->pieces;
    const dma_shape_t *shape = dma_device_sent_shape(d, task->in_place);
    int n = comm->nranks, sends = dma_blocks_sent(task->coll, n).end;
    uint64_t *counts = p->counts;
    dma_run_t *run = &task->run;
    bool scratch = d->piece && (d->piece_send || (task->in_place && d->piece_recv));

    run->recv = d->piece && d->piece_recv
                    ? in_scratch(p, &p->recv, n, half_of(comm, task, true, at), at, counts + n, p->displs + n)
                    : in_place(p, &p->recv, n, d->recv_shape.row, at, counts + n, p->displs + n);
    run->shape = scratch ? NULL : shape;
    run->shape_skip = run->shape ? at * p->bytes : 0;
    if (d->piece && d->piece_send) {
        run->send = in_scratch(p, &p->send, sends, half_of(comm, task, false, at), at, counts, p->displs);
    } else if (!scratch) {
        run->send = in_place(p, &p->send, sends, shape, at, counts, p->displs);
    } else if (dma_coll_gathers(task->coll)) {
        counts[0] = counts[n + comm->rank];
        p->displs[0] = p->displs[n + comm->rank];
        run->send = (dma_blocks_t){.addr = run->recv.addr, .counts = counts, .displs = p->displs};
    } else {
        run->send = run->recv;
    }
}

static dma_status_t begin_run(dma_comm_t *comm, dma_task_t *task, uint64_t piece)
{
    set_targets(comm, piece);
    set_sides(comm, task, piece);
    task->run.epoch = ++comm->device->epoch;
    return comm->engine->start(&task->run);
}

static dma_status_t submit(dma_comm_t *comm, dma_task_t *task)
{
    return dma_device_submit(comm, task, false, dma_trace_begin(comm->trace));
}

static dma_status_t run(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = dma_device_poll_engine(comm, task);

    return status == DMA_OK ? comm->engine->advance(&task->run) : status;
}

/* What this rank sends of the next piece is copied while engines have the present one. They have ended the one before. */
static bool may_fill(const dma_comm_t *comm, uint64_t piece)
{
    return piece <= comm->device->pieces.pipe.submitted;
}

static const dma_pipe_ops_t pipe_ops = {.depth = DMA_PIECE_HALVES,
                                        .may_fill = may_fill,
                                        .fill = copy_in,
                                        .drain = copy_out,
                                        .begin = begin_run,
                                        .submit = submit,
                                        .run = run};

/* ---- the call ---- */

dma_status_t dma_device_begin_pieces(dma_comm_t *comm, dma_task_t *task, uint64_t piece)
{
    struct dma_device_comm *dc = comm->device;
    const struct dma_device_call *d = task->device;
    dma_device_pieces_t *p = &dc->pieces;
    uint64_t most = dma_device_largest_block(comm, task);
    dma_status_t status = dma_device_bind(comm, task, most < piece ? most : piece);

    if (status != DMA_OK) {
        return status;
    }
    p->bytes = piece;
    p->pipe = (dma_pipe_t){.ops = &pipe_ops,
                           .ballot = DEVICE_BALLOT_ENGINE,
                           .count = most ? (most + piece - 1) / piece : 1,
                           .lease = d->piece ? d->memory : NULL,
                           .fills = d->piece && (d->piece_send || (d->piece_recv && task->in_place)),
                           .drains = d->piece && d->piece_recv,
                           .drain_stream = out_stream(task)};
    p->send = task->run.send;
    p->recv = task->run.recv;
    memcpy(p->targets, dc->targets, (size_t)comm->nranks * sizeof(*p->targets));
    for (int r = 0; r < comm->nranks; r++) {
        p->halves[r] = dma_device_info(comm, r, task->run.seq)->flags & DMA_DEVICE_INFO_HALVES;
    }
    if (p->halves[comm->rank]) {
        p->targets[comm->rank] = (dma_target_t){.addr = d->memory->addr};
    }
    dc->last.served = false; /* the programs of a later call are different ones */
    dma_device_set_runner(task, &by_pieces);
    dma_comm_count(comm, DMA_COUNT_calls_pieces);
    dma_device_count_run(comm, task);
    return dma_pipe_begin(comm, task, &p->pipe);
}

static dma_status_t advance_pieces(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = dma_pipe_advance(comm, task, &comm->device->pieces.pipe);

    if (status == DMA_OK && task->device->piece) {
        dma_device_put_scratch(comm->proc, task->device, false);
    }
    return status;
}

void dma_device_cancel_pieces(dma_task_t *task)
{
    struct dma_device_call *d = task->device;

    if (d->piece) {
        d->piece = 0;
        d->device = d->home_device;
        dma_device_put_scratch(task->comm->proc, d, false);
    }
}

static dma_wait_t pieces_wait_for(const dma_comm_t *comm, const dma_task_t *task)
{
    return dma_pipe_waits_for_votes(comm, &comm->device->pieces.pipe)
               ? dma_device_waits_for_votes(comm, DEVICE_BALLOT_ENGINE)
               : dma_host_waits_for_flag(comm, task);
}

static uint64_t pieces_position(const dma_comm_t *comm, const dma_task_t *task)
{
    return dma_pipe_position(&comm->device->pieces.pipe) + dma_host_position(comm, task);
}

static const dma_device_runner_t by_pieces = {
    .name = "engine, in pieces",
    .for_caller = true,
    .advance = advance_pieces,
    .end = dma_host_finish,
    .waits_for = pieces_wait_for,
    .position = pieces_position,
};
