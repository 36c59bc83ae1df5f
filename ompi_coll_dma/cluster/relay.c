/* Pinned slots between device memory and the network: see relay.h. */
#include "cluster/relay.h"

#include "dma/clock.h"

#define SMALLEST_PIECE 4096

/* The next power of two, so that calls of similar size share memory. */
static uint64_t slot_bytes_for(uint64_t piece)
{
    uint64_t bytes = SMALLEST_PIECE;

    while (bytes < piece) {
        bytes *= 2;
    }
    return bytes;
}

dma_status_t dma_relay_acquire(dma_relay_t *r, dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device,
                               uint64_t piece)
{
    uint64_t bytes = slot_bytes_for(piece), slots = DMA_RELAY_BYTES / bytes;
    dma_lease_want_t want = {.kind = DMA_LEASE_PINNED, .rt = rt, .device = device, .exact = true};
    dma_status_t status;

    *r = (dma_relay_t){
        .proc = proc, .piece = bytes, .slots = slots < DMA_RELAY_SLOTS ? (unsigned)slots : DMA_RELAY_SLOTS};
    want.bytes = want.least = 2 * r->slots * bytes + DMA_RELAY_PAD;
    want.streams = DMA_RELAY_DIRS;
    want.events = 2 * r->slots + 1;
    if ((status = dma_lease_take(proc, &want, &r->pinned)) == DMA_OK) {
        r->pinned->copies = true;
    }
    return status;
}

void dma_relay_release(dma_relay_t *r, const dma_comm_t *engines)
{
    bool ended = dma_lease_give_back(r->proc, r->pinned);

    if (!r->scratch) {
        return;
    }
    r->scratch->copies = !ended;
    r->scratch->comm = engines;
    if (engines) {
        dma_lease_lose(r->proc, r->scratch);
    } else {
        (void)dma_lease_give_back(r->proc, r->scratch);
    }
}

/* ---- copies ---- */

unsigned dma_relay_slots(const dma_relay_t *r)
{
    return r->slots;
}

static uint64_t slot_offset(const dma_relay_t *r, dma_relay_dir_t dir, unsigned slot)
{
    return (dir * r->slots + slot) * r->piece;
}

char *dma_relay_slot(const dma_relay_t *r, dma_relay_dir_t dir, unsigned slot)
{
    return r->pinned->memory + slot_offset(r, dir, slot);
}

static uint64_t address(const char *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* A runtime that has been shut down counts as a failed engine. */
static dma_status_t engine_status(dma_status_t status)
{
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

static dma_gpu_event_t *event_of(const dma_relay_t *r, dma_relay_dir_t dir, unsigned slot)
{
    return r->pinned->event[dir * r->slots + slot];
}

static dma_status_t copy(dma_relay_t *r, dma_relay_dir_t dir, unsigned slot, const dma_rect_t *rect)
{
    dma_gpu_scope_t scope;
    dma_status_t status = r->pinned->rt->enter(r->pinned->device, &scope);

    if (status == DMA_OK) {
        status = dma_gpu_copy_rect(r->pinned->rt, r->pinned->stream[dir], rect);
        if (status == DMA_OK) {
            status = r->pinned->rt->event_record(event_of(r, dir, slot), r->pinned->stream[dir]);
        }
        r->moved[dir] = dma_now();
        r->pinned->rt->leave(&scope);
    }
    return engine_status(status);
}

dma_status_t dma_relay_fill(dma_relay_t *r, unsigned slot, const char *from, uint64_t bytes)
{
    uint64_t to = r->pinned->addr + slot_offset(r, DMA_RELAY_OUT, slot);

    return copy(r, DMA_RELAY_OUT, slot, &(dma_rect_t){.dst = to, .src = address(from), .row_bytes = bytes, .rows = 1});
}

dma_status_t dma_relay_drain(dma_relay_t *r, unsigned slot, char *to, uint64_t bytes)
{
    uint64_t from = r->pinned->addr + slot_offset(r, DMA_RELAY_IN, slot);

    return copy(r, DMA_RELAY_IN, slot, &(dma_rect_t){.dst = address(to), .src = from, .row_bytes = bytes, .rows = 1});
}

dma_status_t dma_relay_copy(dma_relay_t *r, char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                            uint64_t bytes, uint32_t rows)
{
    return copy(r, DMA_RELAY_LOCAL, 0,
                &(dma_rect_t){.dst = address(to),
                              .src = address(from),
                              .dst_pitch = (uint64_t)to_pitch,
                              .src_pitch = (uint64_t)from_pitch,
                              .row_bytes = bytes,
                              .rows = rows});
}

dma_status_t dma_relay_test(dma_relay_t *r, dma_relay_dir_t dir, unsigned slot)
{
    double timeout = r->proc->params.timeout;
    dma_gpu_scope_t scope;
    dma_status_t status = r->pinned->rt->enter(r->pinned->device, &scope);

    if (status == DMA_OK) {
        status = r->pinned->rt->event_query(event_of(r, dir, slot));
        r->pinned->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        r->moved[dir] = dma_now();
    } else if (status == DMA_AGAIN && timeout > 0 && dma_now() - r->moved[dir] > timeout) {
        status = DMA_ERR_ENGINE;
    }
    return engine_status(status);
}

/* ---- scratch ---- */

dma_status_t dma_relay_scratch(dma_relay_t *r, uint64_t bytes, char **scratch, bool *on_device)
{
    dma_status_t status;

    *on_device = bytes > DMA_RELAY_PAD;
    if (!*on_device) {
        *scratch = r->pinned->memory + slot_offset(r, DMA_RELAY_LOCAL, 0);
        return DMA_OK;
    }
    status = dma_lease_take(r->proc,
                            &(dma_lease_want_t){.kind = DMA_LEASE_DEVICE,
                                                .rt = r->pinned->rt,
                                                .device = r->pinned->device,
                                                .bytes = bytes,
                                                .least = bytes,
                                                .must = true},
                            &r->scratch);
    if (status != DMA_OK) {
        r->scratch = NULL;
        return engine_status(status);
    }
    *scratch = (char *)(uintptr_t)r->scratch->addr;
    return DMA_OK;
}
