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
 * A vote of a rank for piece k (call.c, the agreed line) says that what it sends of the piece is in place, and that the half
 * for what it receives is free: piece k - 2 has been copied out of it. When all ranks have voted, engines may write piece k.
 * The events of the scratch memory are recorded behind both copies. A vote is never overwritten before all ranks have seen it,
 * except by a later one, which says more.
 */
#include <string.h>

#include "device/device.h"

/* What a call in pieces waits for. */
enum {
    PIECE_COPIES, /* that this rank can vote for the present piece */
    PIECE_VOTES,  /* for the votes of all ranks */
    PIECE_SUBMIT, /* that the engine accepts its programs */
    PIECE_RUN,    /* for the engines of all ranks that write to this one */
    PIECE_LAST,   /* for the last copies out of the scratch memory */
};

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

/* How many bytes of a block belong to a piece. */
static uint64_t part(const dma_device_pieces_t *p, uint64_t bytes, uint64_t piece)
{
    uint64_t skip = piece * p->bytes, left = bytes > skip ? bytes - skip : 0;

    return left < p->bytes ? left : p->bytes;
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
        counts[b] = part(p, dma_blocks_bytes(side, (uint64_t)b), piece);
        displs[b] = (int64_t)((uint64_t)b * p->bytes);
    }
    return (dma_blocks_t){.addr = half, .counts = counts, .displs = displs};
}

/* The same where the user has them. `shaped`: the blocks have a shape, which begins with byte 0 of the block. */
static dma_blocks_t in_place(const dma_device_pieces_t *p, const dma_blocks_t *side, int n, bool shaped, uint64_t piece,
                             uint64_t *counts, int64_t *displs)
{
    for (int b = 0; b < n; b++) {
        counts[b] = part(p, dma_blocks_bytes(side, (uint64_t)b), piece);
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
static dma_status_t copy_in(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
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

static dma_status_t copy_out(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    bool own_kept = task->in_place && dma_coll_gathers(task->coll);

    return task->device->piece_recv ? copy_side(comm, task, true, piece, false, (dma_range_t){.end = comm->nranks},
                                                own_kept ? comm->rank : -1)
                                    : DMA_OK;
}

/* Starts copies in the runtime's scope: piece `out` out of the scratch memory, piece `in` into it (-1: none), and records the
 * event behind them if `record`. Without scratch memory in pieces there is nothing to do. */
static dma_status_t start_copies(const dma_comm_t *comm, const dma_task_t *task, int64_t out, int64_t in, bool record)
{
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!d->piece) {
        return DMA_OK;
    }
    if ((status = d->rt->enter(d->device, &scope)) != DMA_OK) {
        return status;
    }
    if (out >= 0) {
        status = copy_out(comm, task, (uint64_t)out);
    }
    if (status == DMA_OK && in >= 0) {
        status = copy_in(comm, task, (uint64_t)in);
    }
    for (int i = 0; i <= out_stream(task) && status == DMA_OK && record; i++) {
        status = d->rt->event_record(d->memory->event[i], d->memory->stream[i]);
    }
    d->rt->leave(&scope);
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status; /* other ranks depend on it by now */
}

/* DMA_AGAIN: copies in front of the event are under way. */
static dma_status_t test_copies(const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!d->piece) {
        return DMA_OK;
    }
    if ((status = d->rt->enter(d->device, &scope)) == DMA_OK) {
        for (int i = 0; i <= out_stream(task) && status == DMA_OK; i++) {
            status = d->rt->event_query(d->memory->event[i]);
        }
        d->rt->leave(&scope);
    }
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

/* ---- the run of a piece ---- */

/* Where the ranks receive the present piece. */
static void set_targets(const dma_comm_t *comm)
{
    const struct dma_device_comm *dc = comm->device;
    const dma_device_pieces_t *p = &dc->pieces;
    uint64_t n = (uint64_t)comm->nranks;

    for (int r = 0; r < comm->nranks; r++) {
        dma_target_t *to = &dc->targets[r];

        *to = p->targets[r];
        if (p->halves[r]) {
            to->addr += p->at % 2 * n * p->bytes;
            to->bytes = p->bytes;
            to->displs = NULL;
        } else if (to->shape) {
            to->skip = p->at * p->bytes;
        } else {
            to->addr += p->at * p->bytes;
        }
    }
}

/* The blocks of this rank in the present piece. */
static void set_sides(const dma_comm_t *comm, dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    const dma_device_pieces_t *p = &comm->device->pieces;
    const dma_shape_t *shape = dma_device_sent_shape(d, task->in_place);
    int n = comm->nranks, sends = dma_blocks_sent(task->coll, n).end;
    uint64_t *counts = p->counts, at = p->at;
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

static dma_status_t begin_run(dma_comm_t *comm, dma_task_t *task)
{
    set_targets(comm);
    set_sides(comm, task);
    task->run.epoch = ++comm->device->epoch;
    return comm->engine->start(&task->run);
}

/* The engine has the present piece: what this rank sends of the next one is copied meanwhile. */
static dma_status_t submit(dma_comm_t *comm, dma_task_t *task)
{
    const dma_device_pieces_t *p = &comm->device->pieces;
    dma_status_t status = dma_device_submit(comm, task, false, dma_trace_begin(comm->trace));

    if (status != DMA_OK) {
        return status;
    }
    return p->at + 1 < p->count ? start_copies(comm, task, -1, (int64_t)p->at + 1, true) : DMA_OK;
}

static dma_status_t run(dma_comm_t *comm, dma_task_t *task)
{
    dma_status_t status = dma_device_poll_engine(comm, task);

    return status == DMA_OK ? comm->engine->advance(&task->run) : status;
}

/* All ranks have received the present piece from this rank's point of view. */
static dma_status_t end_run(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_pieces_t *p = &comm->device->pieces;
    uint64_t at = p->at++;
    bool last = p->at == p->count;

    p->step = last ? PIECE_LAST : PIECE_COPIES;
    return start_copies(comm, task, (int64_t)at, -1, last);
}

/* ---- the call ---- */

dma_status_t dma_device_begin_pieces(dma_comm_t *comm, dma_task_t *task, uint64_t piece)
{
    struct dma_device_comm *dc = comm->device;
    dma_device_pieces_t *p = &dc->pieces;
    uint64_t most = dma_device_largest_block(comm, task);
    dma_status_t status = dma_device_bind(comm, task, most < piece ? most : piece);

    if (status != DMA_OK) {
        return status;
    }
    p->bytes = piece;
    p->count = most ? (most + piece - 1) / piece : 1;
    p->at = 0;
    p->step = PIECE_COPIES;
    p->send = task->run.send;
    p->recv = task->run.recv;
    memcpy(p->targets, dc->targets, (size_t)comm->nranks * sizeof(*p->targets));
    for (int r = 0; r < comm->nranks; r++) {
        p->halves[r] = dma_device_info(comm, r, task->run.seq)->flags & DMA_DEVICE_INFO_HALVES;
    }
    if (p->halves[comm->rank]) {
        p->targets[comm->rank] = (dma_target_t){.addr = task->device->memory->addr};
    }
    dc->last.served = false; /* the programs of a later call are different ones */
    dma_device_set_runner(task, &by_pieces);
    dma_comm_count(comm, DMA_COUNT_calls_pieces);
    dma_device_count_run(comm, task);
    return start_copies(comm, task, -1, 0, true);
}

static dma_status_t advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_pieces_t *p = &comm->device->pieces;
    dma_status_t status;
    bool all;

    switch (p->step) {
    case PIECE_COPIES:
        if ((status = test_copies(task)) == DMA_OK) {
            dma_device_vote(comm, DEVICE_BALLOT_ENGINE, true);
            p->step = PIECE_VOTES;
        }
        return status;
    case PIECE_VOTES:
        if (!dma_device_votes_are_in(comm, DEVICE_BALLOT_ENGINE, &all)) {
            return DMA_AGAIN;
        }
        p->step = PIECE_SUBMIT;
        return begin_run(comm, task);
    case PIECE_SUBMIT:
        if ((status = submit(comm, task)) == DMA_OK) {
            p->step = PIECE_RUN;
        }
        return status;
    case PIECE_RUN:
        return (status = run(comm, task)) == DMA_OK ? end_run(comm, task) : status;
    default:
        return test_copies(task);
    }
}

static dma_status_t advance_pieces(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_pieces_t *p = &comm->device->pieces;
    dma_status_t status;
    int step;

    do {
        step = p->step;
        status = advance(comm, task);
    } while (status == DMA_OK && step != PIECE_LAST);
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
    return comm->device->pieces.step == PIECE_VOTES ? dma_device_waits_for_votes(comm, DEVICE_BALLOT_ENGINE)
                                                    : dma_host_waits_for_flag(comm, task);
}

static const char *pieces_name(const dma_task_t *task)
{
    (void)task;
    return "engine, in pieces";
}

static uint64_t pieces_position(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_device_pieces_t *p = &comm->device->pieces;

    return p->at * 8 + (uint64_t)p->step + dma_host_position(comm, task);
}

static const dma_device_runner_t by_pieces = {
    .name = pieces_name,
    .for_caller = true,
    .advance = advance_pieces,
    .end = dma_host_finish,
    .waits_for = pieces_wait_for,
    .position = pieces_position,
};
