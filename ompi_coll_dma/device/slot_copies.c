/*
 * Copies between the user's blocks and slots (by_slots.c).
 *
 * The device copies contiguous blocks straight from and to slots. The processor copies sides in host memory. Blocks in device
 * memory that consist of rows pass through a room in device memory, which holds one piece of one block:
 *
 *     sent        rows  --copies inside the device-->  room  --one copy-->  own slot
 *     received    slot of a peer  --one copy-->  room  --copies inside the device-->  rows
 *
 * Strided copies straight from slots are slow (write.c). Each direction has a room of its own and a stream of its own, so what goes
 * into a room is behind what came out of it. Short irregular rows that are sent are packed by the processor (gather.c): copies
 * inside the device cost more than to copy the gaps as well. Where that needs more pinned memory than there is, the room serves
 * them, too.
 */
#include "device/slot_copies.h"

#include "device/device.h"

/* One side of a copy. */
typedef struct end {
    dma_place_t at;
    bool on_device; /* the device copies it */
} end_t;

/* Block `block` of a side, from byte `skip` on. */
static end_t end_of(const dma_task_t *task, bool receives, uint64_t block, uint64_t skip)
{
    const struct dma_device_call *d = task->device;
    const dma_blocks_t *blocks = receives ? &task->run.recv : &task->run.send;
    bool recv = receives || task->in_place;

    return (end_t){.at = {.addr = (uint64_t)(uintptr_t)dma_blocks_addr(blocks, block),
                          .skip = skip,
                          .shape = recv ? &d->recv_shape : &d->send_shape,
                          .type = recv ? d->recv_type : d->send_type},
                   .on_device = (recv ? d->recv_on : d->send_on) || d->by_link};
}

static bool has_rows(const end_t *e)
{
    return e->at.type || (e->at.shape && e->at.shape->row);
}

bool dma_slots_can_copy(const dma_task_t *task)
{
    end_t send = end_of(task, false, 0, 0), recv = end_of(task, true, 0, 0);

    return (send.on_device || !has_rows(&send)) && (recv.on_device || !has_rows(&recv));
}

bool dma_slots_needs_room(const dma_task_t *task)
{
    end_t send = end_of(task, false, 0, 0), recv = end_of(task, true, 0, 0);

    return has_rows(&send) || has_rows(&recv);
}

/* ---- the room ---- */

uint64_t dma_slots_get_room(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    const struct dma_device_call *d = task->device;
    dma_device_by_slots_t *p = &comm->device->by_slots;
    const dma_side_t *type = end_of(task, false, 0, 0).at.type;
    uint64_t want = DMA_SLOTS_STREAMS * piece;
    dma_status_t status = dma_lease_take(comm->proc,
                                         &(dma_lease_want_t){.kind = DMA_LEASE_DEVICE,
                                                             .rt = d->rt,
                                                             .device = d->device,
                                                             .bytes = want,
                                                             .least = DMA_SLOTS_STREAMS * DMA_LEAST_PIECE},
                                         &p->room);

    if (status != DMA_OK) {
        p->room = NULL;
        dma_comm_note_reason(comm, DMA_REASON_staged_scratch);
        return 0;
    }
    p->room_bytes = p->room->bytes / DMA_SLOTS_STREAMS / DEVICE_PIECE_UNIT * DEVICE_PIECE_UNIT;
    p->gathers = type && !dma_device_has_long_rows(comm, type) && dma_gather_begin(&p->gather, comm, d->rt, d->device);
    return p->room_bytes < piece ? p->room_bytes : piece;
}

void dma_slots_put_room(dma_comm_t *comm, bool copies_ended)
{
    dma_device_by_slots_t *p = &comm->device->by_slots;

    if (p->gathers) {
        dma_gather_end(&p->gather, comm->proc);
        p->gathers = false;
    }
    if (p->room) {
        p->room->copies = !copies_ended;
        (void)dma_lease_give_back(comm->proc, p->room);
        p->room = NULL;
    }
}

/* ---- copies; in scope ---- */

/* Where piece `piece` of what `owner` sends to `reader` is. */
static end_t slot_of(const dma_comm_t *comm, const dma_task_t *task, int owner, int reader, uint64_t piece)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    uint64_t at = dma_coll_gathers(task->coll) ? 0 : (uint64_t)((reader - owner - 1 + comm->nranks) % comm->nranks);

    at += piece % DMA_SLOTS * dma_slot_blocks(comm, task);
    return (end_t){.at.addr = (uint64_t)(uintptr_t)p->slots[owner] + at * p->bytes};
}

static end_t room_of(const dma_device_by_slots_t *p, int stream)
{
    return (end_t){.at.addr = p->room->addr + (uint64_t)stream * p->room_bytes, .on_device = true};
}

static dma_status_t copy(const dma_comm_t *comm, int stream, const end_t *dst, const end_t *src, uint64_t bytes)
{
    const dma_lease_t *memory = comm->device->by_slots.memory;
    dma_rects_t rects = {.host = comm->host, .visit = dma_rect_move};
    dma_rect_stream_t copies;

    if (dst->on_device || src->on_device) {
        copies = (dma_rect_stream_t){.rt = memory->rt, .stream = memory->stream[stream]};
        rects.visit = dma_rect_start;
        rects.arg = &copies;
    }
    return dma_rects_list(&rects, &dst->at, &src->at, bytes);
}

/* The same; rows pass through the room. */
static dma_status_t copy_by_room(const dma_comm_t *comm, int stream, end_t dst, end_t src, uint64_t bytes)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    dma_status_t status = DMA_OK;
    end_t room;

    if (!has_rows(&dst) && !has_rows(&src)) {
        return copy(comm, stream, &dst, &src, bytes);
    }
    room = room_of(p, stream);
    for (uint64_t at = 0; status == DMA_OK && at < bytes; at += p->room_bytes) {
        uint64_t n = bytes - at < p->room_bytes ? bytes - at : p->room_bytes;

        status = copy(comm, stream, &room, &src, n);
        status = status == DMA_OK ? copy(comm, stream, &dst, &room, n) : status;
        src.at.skip += n;
        dst.at.skip += n;
    }
    return status;
}

/* ---- pieces ---- */

/* Part k = 1, 2, ... of a piece: what this rank sends to one peer, or to all of them. `bytes` 0: nothing. */
static dma_gather_part_t part_of(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece, int k)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    uint64_t block = dma_coll_gathers(task->coll) ? 0 : (uint64_t)((comm->rank + k) % comm->nranks);

    return (dma_gather_part_t){.at = end_of(task, false, block, piece * p->bytes).at,
                               .bytes = dma_pipe_part(p->bytes, dma_blocks_bytes(&task->run.send, block), piece)};
}

/* The part behind part k of a piece. */
static dma_gather_part_t next_part(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece, int k)
{
    bool last = k == (int)dma_slot_blocks(comm, task);

    return part_of(comm, task, last ? piece + 1 : piece, last ? 1 : k + 1);
}

dma_status_t dma_slots_fill(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    dma_device_by_slots_t *p = &comm->device->by_slots;
    dma_status_t status = DMA_OK;

    for (int k = 1; status == DMA_OK && k <= (int)dma_slot_blocks(comm, task); k++) {
        end_t slot = slot_of(comm, task, comm->rank, (comm->rank + k) % comm->nranks, piece);
        dma_gather_part_t now = part_of(comm, task, piece, k), next = next_part(comm, task, piece, k);
        end_t from = {.at = now.at, .on_device = end_of(task, false, 0, 0).on_device};

        if (now.bytes) {
            status = p->gathers ? dma_gather_pack(&p->gather, comm, &now, &next, slot.at.addr) : DMA_UNSUPPORTED;
        }
        if (status == DMA_UNSUPPORTED) {
            status = copy_by_room(comm, DMA_SLOTS_OUT, slot, from, now.bytes);
        }
    }
    return status;
}

dma_status_t dma_slots_take(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    dma_status_t status = DMA_OK;

    for (int k = 1; status == DMA_OK && k < comm->nranks; k++) {
        int r = (comm->rank + k) % comm->nranks;
        uint64_t bytes = dma_pipe_part(p->bytes, dma_blocks_bytes(&task->run.recv, (uint64_t)r), piece);

        if (bytes) {
            status = copy_by_room(comm, DMA_SLOTS_IN, end_of(task, true, (uint64_t)r, piece * p->bytes),
                                  slot_of(comm, task, r, comm->rank, piece), bytes);
        }
    }
    return status;
}

/* It goes straight to its place, in front of the first piece. */
dma_status_t dma_slots_copy_own(const dma_comm_t *comm, const dma_task_t *task)
{
    uint64_t rank = (uint64_t)comm->rank, from = dma_coll_gathers(task->coll) ? 0 : rank;

    if (task->in_place) {
        return DMA_OK;
    }
    return copy_by_room(comm, DMA_SLOTS_IN, end_of(task, true, rank, 0), end_of(task, false, from, 0),
                        dma_blocks_bytes(&task->run.send, from));
}
