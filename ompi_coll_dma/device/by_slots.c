/*
 * Calls by slots: device memory goes through pinned memory that the ranks share, and no core touches it.
 *
 * That is done if engines cannot move device memory between the ranks: no engine serves a device, a peer cannot open memory,
 * there is no scratch memory, or a rank has host memory alone and has joined (join.h). Each rank's device copies what the rank sends into the rank's own slots
 * (slots.h), and the devices of its peers copy it out of there, in pieces:
 *
 *     device of rank 0   --0-->  | slot 0 | slot 1 | slot 2 | slot 3 |  of rank 0   --1-->  device of rank 1
 *     device of rank 1   --0-->  | slot 0 | slot 1 | slot 2 | slot 3 |  of rank 1   --1-->  device of rank 0
 *
 * Piece k is bytes k * piece .. (k + 1) * piece - 1 of every block. It lies in slot k modulo DMA_SLOTS: the one block of an
 * all-gather, or one block for each peer of an all-to-all. Copies in both directions are on streams of their own, so a link
 * works in both directions at once. A side in host memory is copied by the processor, once.
 *
 * Votes (call.c, the agreed line) keep order:
 *
 *     the first       this rank has slots, and has published where they are. If a rank has not, all take the host plan.
 *     the second      this rank's device can read the slots of all peers. The same.
 *     that of piece   this rank's piece k is in its slot, and it has read all pieces up to k - LAG out of the slots of peers.
 *      k = 0, 1, ...  There are LAG votes more than pieces. So with the last one a rank has read everything.
 *
 *     piece k is read                     when all have voted for k
 *     slot of piece k is filled again     with piece k + DMA_SLOTS, when all have voted for k + LAG
 *
 * A rank can always cast its next vote if all ranks have cast the present one, because DMA_PIPE_LAG < DMA_SLOTS: it may fill a slot
 * and read a piece without another rank's next vote. In between the engines have DMA_SLOTS - LAG pieces to fill and up to LAG
 * to read, so they work on while the ranks vote.
 *
 * In an all-to-all in place a block is overwritten by piece k of a peer only after all votes for k, so after the own copy of
 * these bytes into the slot.
 *
 * When a rank fails, its peers see its poison. Its own copies end before its slots are used again; peers that still read them
 * get bytes that nobody uses.
 */
#include <string.h>

#include "device/device.h"
#include "device/slot_copies.h"

#define PIECE_UNIT  UINT64_C(256)         /* bytes; pieces are multiples of it */
#define PIECE_LEAST UINT64_C(4096)        /* bytes: smaller ones take longer to start than to copy */
#define PIECE_SHORT (UINT64_C(128) << 10) /* bytes: a call is not cut into smaller ones only to have more of them */
#define PIECES      8                     /* of a call at least, so that both directions overlap */

/* What a call by slots waits for. */
enum {
    SLOTS_HAVE, /* that all ranks have slots */
    SLOTS_VIEW, /* that all ranks can read them */
    SLOTS_RUN,  /* for copies, and for votes about pieces */
};

static const dma_device_runner_t by_slots;

/* ---- sizes ---- */

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + PIECE_UNIT - 1) / PIECE_UNIT * PIECE_UNIT;
}

/* The largest pieces for which slots have room. */
static uint64_t piece_of(const dma_comm_t *comm, const dma_task_t *task, uint64_t bytes)
{
    return bytes / DMA_SLOTS / dma_slot_blocks(comm, task) / PIECE_UNIT * PIECE_UNIT;
}

bool dma_device_can_use_slots(const dma_comm_t *comm, const dma_task_t *task)
{
    return comm->nranks > 1 && !task->device->by_link && dma_slots_can_copy(task) &&
           dma_device_largest_received(task) >= DEVICE_SLOTS_FROM;
}

/* ---- the agreement ---- */

/* Does each peer receive as many bytes from this rank as it sends? */
static dma_status_t compare_blocks(const dma_comm_t *comm, dma_task_t *task)
{
    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_info_t *info = dma_device_info(comm, r, task->run.seq);
        const char *record = dma_window_record(&comm->window, r, task->run.seq);
        const dma_device_block_t *table = (const dma_device_block_t *)(record + DMA_RECORD_BYTES(0));
        uint64_t ours = dma_blocks_bytes(&task->run.send, dma_coll_gathers(task->coll) ? 0 : (uint64_t)r);

        if (r != comm->rank && info->flags & DMA_DEVICE_INFO_TABLE && table[comm->rank].bytes != ours) {
            task->run.failed_rank = r;
            return DMA_ERR_TRUNCATE;
        }
    }
    return DMA_OK;
}

/* NULL: there are none of at least `least` bytes. */
static dma_lease_t *take_slots(const dma_comm_t *comm, const struct dma_device_call *d, uint64_t least)
{
    dma_lease_want_t want = {.kind = DMA_LEASE_SHARED,
                             .rt = d->rt,
                             .device = d->device,
                             .arena = comm->window.arena,
                             .bytes = DMA_SLOTS_MOST,
                             .least = least,
                             .streams = d->rt ? DMA_SLOTS_STREAMS : 0,
                             .events = d->rt ? DMA_SLOTS_STREAMS * DMA_SLOTS : 0,
                             .exact = true};
    dma_lease_t *slots;

    if (least > want.bytes || dma_lease_take(comm->proc, &want, &slots) != DMA_OK) {
        return NULL;
    }
    slots->copies = slots->rt != NULL;
    return slots;
}

/* Gets slots, which this rank's device can use, and publishes where they are. */
static bool get_slots(dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    bool whole = d->rt && comm->device->device->engine; /* it registers the whole arena, now or later */
    dma_device_by_slots_t *p = &comm->device->by_slots;
    dma_device_record_t *record = dma_window_record(&comm->window, comm->rank, task->run.seq);
    char *arena = dma_arena_base(comm->window.arena);
    uint64_t piece;

    if (!dma_slots_can_copy(task)) {
        return false;
    }
    if (!(p->memory = take_slots(comm, d, PIECE_LEAST * DMA_SLOTS * dma_slot_blocks(comm, task)))) {
        return false;
    }
    if (d->rt && dma_slots_view(comm, d->device, comm->rank, p->memory->memory, p->memory->bytes, whole,
                                &p->views[comm->rank]) != DMA_OK) {
        return false;
    }
    record->slots_at = (uint64_t)(p->memory->memory - arena);
    record->slots_bytes = p->memory->bytes;
    if (!dma_slots_needs_room(task)) {
        return true;
    }
    piece = dma_slots_get_room(comm, task, piece_of(comm, task, p->memory->bytes));
    record->slots_bytes = piece * DMA_SLOTS * dma_slot_blocks(comm, task);
    return piece >= PIECE_LEAST;
}

dma_status_t dma_device_begin_slots(dma_comm_t *comm, dma_task_t *task, dma_reason_t why)
{
    struct dma_device_comm *dc = comm->device;
    struct dma_device_call *d = task->device;
    dma_device_by_slots_t *p = &dc->by_slots;
    dma_status_t status;

    dma_device_leave_engine(comm, task);
    if ((status = compare_blocks(comm, task)) != DMA_OK) {
        return status;
    }
    *p = (dma_device_by_slots_t){.slots = p->slots, .views = p->views, .largest = dma_device_largest_block(comm, task)};
    d->slots_why = d->slots_why ? d->slots_why : why;
    dma_device_set_runner(task, &by_slots);
    dma_device_vote(comm, DEVICE_BALLOT_SLOTS, get_slots(comm, task));
    return DMA_OK;
}

/* Makes the slots of all peers readable. False: a peer has published what cannot be, or the runtime refuses it. */
static bool view_peers(const dma_comm_t *comm, const dma_task_t *task)
{
    const struct dma_device_call *d = task->device;
    const dma_device_t *device = d->rt ? comm->device->device : NULL;
    bool whole = device && device->engine && device->traits.features & DMA_GPU_PRELAUNCH; /* see persistent.c */
    dma_device_by_slots_t *p = &comm->device->by_slots;

    p->bytes = UINT64_MAX;
    for (int r = 0; r < comm->nranks; r++) {
        const dma_device_record_t *record = dma_window_record(&comm->window, r, task->run.seq);
        const dma_mapping_t *m = comm->window.peers[r].mapping;
        uint64_t piece = piece_of(comm, task, record->slots_bytes);

        if (record->slots_at > m->bytes || record->slots_bytes > m->bytes - record->slots_at || piece < PIECE_LEAST) {
            return false;
        }
        p->slots[r] = m->base + record->slots_at;
        p->bytes = piece < p->bytes ? piece : p->bytes;
        if (r != comm->rank && d->rt &&
            dma_slots_view(comm, d->device, r, p->slots[r], record->slots_bytes, whole, &p->views[r]) != DMA_OK) {
            return false;
        }
    }
    return true;
}

/* ---- the run ---- */

/* Without a device nothing is to be entered. */
static dma_status_t enter_scope(const struct dma_device_call *d, dma_gpu_scope_t *scope)
{
    return d->rt ? d->rt->enter(d->device, scope) : DMA_OK;
}

static void leave_scope(const struct dma_device_call *d, dma_gpu_scope_t *scope)
{
    if (d->rt) {
        d->rt->leave(scope);
    }
}

/* All peers have read what was in the slot before. */
static bool may_fill(const dma_comm_t *comm, uint64_t piece)
{
    return piece < DMA_SLOTS || dma_pipe_voted(comm, &comm->device->by_slots.pipe, piece - DMA_SLOTS + DMA_PIPE_LAG);
}

static const dma_pipe_ops_t pipe_ops = {
    .depth = DMA_SLOTS, .tail = DMA_PIPE_LAG, .may_fill = may_fill, .fill = dma_slots_fill, .drain = dma_slots_take};

static dma_status_t begin(dma_comm_t *comm, dma_task_t *task)
{
    struct dma_device_call *d = task->device;
    dma_device_by_slots_t *p = &comm->device->by_slots;
    uint64_t most = round_up((p->largest + PIECES - 1) / PIECES);
    dma_gpu_scope_t scope;
    dma_status_t status = DMA_OK;

    most = most < PIECE_SHORT ? PIECE_SHORT : most;
    p->bytes = most < p->bytes ? most : p->bytes;
    p->pipe = (dma_pipe_t){.ops = &pipe_ops,
                           .ballot = DEVICE_BALLOT_SLOTS,
                           .count = (p->largest + p->bytes - 1) / p->bytes,
                           .lease = p->memory,
                           .fills = true,
                           .drains = true,
                           .drain_stream = DMA_SLOTS_IN};
    p->step = SLOTS_RUN;
    comm->counts.at[DMA_COUNT_calls_staged] += !d->joins;
    comm->counts.at[DMA_COUNT_bytes_cores] += d->joins ? dma_blocks_all(&task->run.recv, comm->nranks) : 0;
    dma_comm_count(comm, DMA_COUNT_calls_slots);
    dma_comm_note_reason(comm, d->slots_why);
    if ((status = dma_pipe_begin(comm, task, &p->pipe)) == DMA_OK && (status = enter_scope(d, &scope)) == DMA_OK) {
        status = dma_slots_copy_own(comm, task);
        leave_scope(d, &scope);
    }
    return status;
}

static dma_status_t give_up(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_end_slots(comm);
    return dma_device_begin_host(comm, task, true, task->device->slots_why);
}

/* An agreement in front of the pieces. */
static dma_status_t advance_agreement(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_by_slots_t *p = &comm->device->by_slots;
    bool all;

    if (!dma_device_votes_are_in(comm, DEVICE_BALLOT_SLOTS, &all)) {
        return DMA_AGAIN;
    }
    if (!all) {
        return give_up(comm, task);
    }
    if (p->step == SLOTS_VIEW) {
        return begin(comm, task);
    }
    p->step = SLOTS_VIEW;
    dma_device_vote(comm, DEVICE_BALLOT_SLOTS, view_peers(comm, task));
    return DMA_OK;
}

static dma_status_t advance_slots(dma_comm_t *comm, dma_task_t *task)
{
    dma_device_by_slots_t *p = &comm->device->by_slots;
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && task->device->runner == &by_slots && p->step != SLOTS_RUN) {
        status = advance_agreement(comm, task);
    }
    if (task->device->runner != &by_slots || (status != DMA_OK && p->step != SLOTS_RUN)) {
        return status;
    }
    if (status == DMA_OK && (status = dma_pipe_advance(comm, task, &p->pipe)) == DMA_OK) {
        dma_device_end_slots(comm);
    }
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status; /* other ranks depend on it by now */
}

void dma_device_end_slots(dma_comm_t *comm)
{
    dma_device_by_slots_t *p = &comm->device->by_slots;

    bool ended = !p->memory || dma_lease_give_back(comm->proc, p->memory);

    p->memory = NULL;
    dma_slots_put_room(comm, ended);
}

static dma_wait_t slots_wait_for(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return dma_device_waits_for_votes(comm, DEVICE_BALLOT_SLOTS);
}

static uint64_t slots_position(const dma_comm_t *comm, const dma_task_t *task)
{
    (void)task;
    return dma_pipe_position(&comm->device->by_slots.pipe);
}

static const dma_device_runner_t by_slots = {
    .name = "copies through shared pinned memory",
    .for_caller = true,
    .advance = advance_slots,
    .end = dma_device_end_streaming,
    .waits_for = slots_wait_for,
    .position = slots_position,
};
