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

#include <string.h>

#include "device/device.h"

/* What the blocks of a side look like. */
typedef struct layout {
    const dma_shape_t *shape; /* NULL: none */
    const dma_side_t *type;   /* irregular; NULL: it is not */
    bool on_device;           /* the device copies it */
} layout_t;

static layout_t layout_of(const dma_task_t *task, bool receives)
{
    const struct dma_device_call *d = task->device;
    bool recv = receives || task->in_place;
    const dma_shape_t *shape = recv ? &d->recv_shape : &d->send_shape;

    return (layout_t){.shape = shape->row ? shape : NULL,
                      .type = recv ? d->recv_type : d->send_type,
                      .on_device = (recv ? d->recv_on : d->send_on) || d->by_link};
}

static bool has_rows(const layout_t *l)
{
    return l->shape || l->type;
}

bool dma_slots_can_copy(const dma_task_t *task)
{
    layout_t send = layout_of(task, false), recv = layout_of(task, true);

    return (send.on_device || !has_rows(&send)) && (recv.on_device || !has_rows(&recv));
}

bool dma_slots_needs_room(const dma_task_t *task)
{
    layout_t send = layout_of(task, false), recv = layout_of(task, true);

    return has_rows(&send) || has_rows(&recv);
}

/* ---- the room ---- */

uint64_t dma_slots_get_room(dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    const struct dma_device_call *d = task->device;
    dma_device_by_slots_t *p = &comm->device->by_slots;
    layout_t send = layout_of(task, false);
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
        dma_comm_note_reason(comm, DMA_REASON_staged_room);
        return 0;
    }
    p->room_bytes = p->room->bytes / DMA_SLOTS_STREAMS / DEVICE_PIECE_UNIT * DEVICE_PIECE_UNIT;
    p->gathers = send.type && !dma_device_has_long_rows(comm, send.type) &&
                 dma_gather_begin(&p->gather, comm, d->rt, d->device, send.type);
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

/* How many bytes of a block belong to a piece. */
static uint64_t part(const dma_device_by_slots_t *p, uint64_t bytes, uint64_t piece)
{
    uint64_t skip = piece * p->bytes, left = bytes > skip ? bytes - skip : 0;

    return left < p->bytes ? left : p->bytes;
}

/* Where piece `piece` of what `owner` sends to `reader` is. */
static char *slot_of(const dma_comm_t *comm, const dma_task_t *task, int owner, int reader, uint64_t piece)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    uint64_t at = dma_coll_gathers(task->coll) ? 0 : (uint64_t)((reader - owner - 1 + comm->nranks) % comm->nranks);

    return p->slots[owner] + (piece % DMA_SLOTS * dma_slot_blocks(comm, task) + at) * p->bytes;
}

/* Contiguous bytes. */
static dma_status_t copy(const dma_comm_t *comm, int stream, bool on_device, char *to, const char *from, uint64_t bytes)
{
    const dma_lease_t *s = comm->device->by_slots.memory;

    if (!on_device) {
        memcpy(to, from, bytes);
        return DMA_OK;
    }
    return s->rt->copy_async(s->stream[stream], (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
}

/* Rows of a block, from byte `skip` on, and contiguous device memory. `packs`: to that memory. */
static dma_status_t copy_rows(const dma_comm_t *comm, int stream, const layout_t *l, char *block, uint64_t skip,
                              char *packed, uint64_t bytes, bool packs)
{
    dma_blocks_t user = {.addr = block, .bytes = bytes}, ours = {.addr = packed, .bytes = bytes};
    dma_device_end_t rows = {.blocks = &user, .shape = l->shape, .type = l->type, .skip = skip};
    dma_device_end_t room = {.blocks = &ours};

    return dma_device_copy_blocks(comm, comm->device->by_slots.memory->stream[stream], packs ? &room : &rows,
                                  packs ? &rows : &room, &ours, (dma_range_t){.end = 1}, -1);
}

static char *room_of(const dma_device_by_slots_t *p, int stream)
{
    return (char *)(uintptr_t)p->room->addr + (uint64_t)stream * p->room_bytes;
}

/* Bytes of a block from `skip` on, to contiguous memory that the device can write. */
static dma_status_t pack(const dma_comm_t *comm, int stream, const layout_t *l, char *block, uint64_t skip, char *to,
                         uint64_t bytes)
{
    char *room;
    dma_status_t status;

    if (!has_rows(l)) {
        return copy(comm, stream, l->on_device, to, block + skip, bytes);
    }
    room = room_of(&comm->device->by_slots, stream);
    status = copy_rows(comm, stream, l, block, skip, room, bytes, true);
    return status == DMA_OK ? copy(comm, stream, true, to, room, bytes) : status;
}

/* The other way round. */
static dma_status_t unpack(const dma_comm_t *comm, int stream, const layout_t *l, char *block, uint64_t skip,
                           const char *from, uint64_t bytes)
{
    char *room;
    dma_status_t status;

    if (!has_rows(l)) {
        return copy(comm, stream, l->on_device, block + skip, from, bytes);
    }
    room = room_of(&comm->device->by_slots, stream);
    status = copy(comm, stream, true, room, from, bytes);
    return status == DMA_OK ? copy_rows(comm, stream, l, block, skip, room, bytes, false) : status;
}

/* ---- pieces ---- */

/* Part k = 1, 2, ... of a piece: what this rank sends to one peer, or to all of them. `bytes` 0: nothing. */
static dma_gather_part_t part_of(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece, int k)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    uint64_t block = dma_coll_gathers(task->coll) ? 0 : (uint64_t)((comm->rank + k) % comm->nranks);

    return (dma_gather_part_t){.block = dma_blocks_addr(&task->run.send, block),
                               .skip = piece * p->bytes,
                               .bytes = part(p, dma_blocks_bytes(&task->run.send, block), piece)};
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
    layout_t l = layout_of(task, false);
    dma_status_t status = DMA_OK;

    for (int k = 1; status == DMA_OK && k <= (int)dma_slot_blocks(comm, task); k++) {
        char *slot = slot_of(comm, task, comm->rank, (comm->rank + k) % comm->nranks, piece);
        dma_gather_part_t now = part_of(comm, task, piece, k), next = next_part(comm, task, piece, k);

        if (now.bytes) {
            status = p->gathers ? dma_gather_pack(&p->gather, comm, &now, &next, slot) : DMA_UNSUPPORTED;
        }
        if (status == DMA_UNSUPPORTED) {
            status = pack(comm, DMA_SLOTS_OUT, &l, now.block, now.skip, slot, now.bytes);
        }
    }
    return status;
}

dma_status_t dma_slots_take(const dma_comm_t *comm, const dma_task_t *task, uint64_t piece)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    layout_t l = layout_of(task, true);
    dma_status_t status = DMA_OK;

    for (int k = 1; status == DMA_OK && k < comm->nranks; k++) {
        int r = (comm->rank + k) % comm->nranks;
        uint64_t bytes = part(p, dma_blocks_bytes(&task->run.recv, (uint64_t)r), piece);

        if (bytes) {
            status = unpack(comm, DMA_SLOTS_IN, &l, dma_blocks_addr(&task->run.recv, (uint64_t)r), piece * p->bytes,
                            slot_of(comm, task, r, comm->rank, piece), bytes);
        }
    }
    return status;
}

/* It goes straight to its place, in front of the first piece. If both sides are rows, it passes through the room. */
dma_status_t dma_slots_copy_own(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_device_by_slots_t *p = &comm->device->by_slots;
    layout_t send = layout_of(task, false), recv = layout_of(task, true);
    uint64_t rank = (uint64_t)comm->rank, from = dma_coll_gathers(task->coll) ? 0 : rank;
    uint64_t bytes = dma_blocks_bytes(&task->run.send, from), step = bytes;
    char *src = dma_blocks_addr(&task->run.send, from), *dst = dma_blocks_addr(&task->run.recv, rank);
    dma_status_t status = DMA_OK;

    if (task->in_place || !bytes) {
        return DMA_OK;
    }
    if (!has_rows(&send) && !has_rows(&recv)) {
        return copy(comm, DMA_SLOTS_IN, send.on_device || recv.on_device, dst, src, bytes);
    }
    step = p->room_bytes;
    for (uint64_t at = 0; status == DMA_OK && at < bytes; at += step) {
        uint64_t n = bytes - at < step ? bytes - at : step;
        char *room = room_of(p, DMA_SLOTS_IN);

        status = has_rows(&send) ? copy_rows(comm, DMA_SLOTS_IN, &send, src, at, room, n, true)
                                 : copy(comm, DMA_SLOTS_IN, true, room, src + at, n);
        if (status == DMA_OK) {
            status = has_rows(&recv) ? copy_rows(comm, DMA_SLOTS_IN, &recv, dst, at, room, n, false)
                                     : copy(comm, DMA_SLOTS_IN, true, dst + at, room, n);
        }
    }
    return status;
}
