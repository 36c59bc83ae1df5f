/* Pinned slots between device memory and the network: see relay.h. */
#include "cluster/relay.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "device/device.h"

#define SMALLEST_PIECE 4096

struct dma_relay {
    dma_relay_t *next;
    const dma_gpu_runtime_t *rt;
    int device;
    bool busy; /* guarded by the device lock of the process, like the list */
    uint64_t piece;
    unsigned slots;
    char *memory;
    uint64_t bytes;
    uint64_t pinned; /* the address of `memory` for the device */
    dma_gpu_stream_t *stream[DMA_RELAY_DIRS];
    dma_gpu_event_t *event[DMA_RELAY_DIRS][DMA_RELAY_SLOTS];
    dma_budget_t *budget;
    double timeout;                  /* seconds */
    double moved[DMA_RELAY_DIRS];    /* when a copy was last started, or found complete */
    uint64_t scratch, scratch_bytes; /* device memory */
};

/* ---- create, acquire, release ---- */

/* In scope. Destroys what create_objects has created, also if it has failed. DMA_AGAIN: the memory is still registered. */
static dma_status_t destroy_objects(dma_relay_t *r)
{
    const dma_gpu_runtime_t *rt = r->rt;

    if (r->scratch) {
        (void)rt->free(r->scratch);
    }
    for (int dir = 0; dir < DMA_RELAY_DIRS; dir++) {
        for (unsigned i = 0; i < DMA_RELAY_SLOTS; i++) {
            if (r->event[dir][i]) {
                (void)rt->event_destroy(r->event[dir][i]);
            }
        }
        if (r->stream[dir]) {
            (void)rt->stream_destroy(r->stream[dir]);
        }
    }
    return r->pinned ? rt->host_unregister(r->memory) : DMA_OK;
}

/* In scope. */
static dma_status_t create_objects(dma_relay_t *r)
{
    const dma_gpu_runtime_t *rt = r->rt;
    dma_status_t status = rt->host_register(r->memory, r->bytes, &r->pinned);

    for (int dir = 0; status == DMA_OK && dir < DMA_RELAY_DIRS; dir++) {
        status = rt->stream_create(&r->stream[dir]);
        for (unsigned i = 0; status == DMA_OK && i < (dir == DMA_RELAY_LOCAL ? 1 : r->slots); i++) {
            status = rt->event_create(&r->event[dir][i]);
        }
    }
    return status;
}

/* Gives back what the relay has taken from the budget, and frees its memory. `lost`: a device may still use the memory. */
static void free_memory(dma_relay_t *r, bool lost)
{
    if (!lost) {
        munmap(r->memory, r->bytes);
    }
    dma_budget_give(r->budget, DMA_BUDGET_PINNED, r->bytes);
    dma_budget_give(r->budget, DMA_BUDGET_DEVICE, r->scratch_bytes);
    free(r);
}

static dma_status_t create_relay(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece,
                                 dma_relay_t **result)
{
    dma_relay_t *r = calloc(1, sizeof(*r));
    uint64_t slots = DMA_RELAY_BYTES / piece;
    dma_gpu_scope_t scope;
    dma_status_t status, freed = DMA_OK;

    if (!r) {
        return DMA_ERR_NOMEM;
    }
    r->rt = rt;
    r->device = device;
    r->busy = true;
    r->timeout = proc->params.timeout;
    r->piece = piece;
    r->slots = slots < DMA_RELAY_SLOTS ? (unsigned)slots : DMA_RELAY_SLOTS;
    r->bytes = 2 * r->slots * piece + DMA_RELAY_PAD;
    r->budget = &proc->budget;
    if (!dma_budget_take(r->budget, DMA_BUDGET_PINNED, r->bytes)) {
        free(r);
        return DMA_ERR_NOMEM;
    }
    r->memory = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->memory == MAP_FAILED) {
        free_memory(r, true);
        return DMA_ERR_NOMEM;
    }
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = create_objects(r);
        if (status != DMA_OK) {
            freed = destroy_objects(r);
        }
        rt->leave(&scope);
    }
    if (status != DMA_OK) {
        free_memory(r, freed == DMA_AGAIN);
        return status;
    }
    *result = r;
    return DMA_OK;
}

/* In scope. DMA_OK: no copy is in progress. DMA_AGAIN: one is. An error: a reset of the device has destroyed a stream. */
static dma_status_t query_streams(const dma_relay_t *r)
{
    dma_status_t all = DMA_OK;

    for (int dir = 0; dir < DMA_RELAY_DIRS; dir++) {
        dma_status_t status = r->rt->stream_query(r->stream[dir]);

        all = status == DMA_OK || all < 0 ? all : status;
    }
    return all;
}

/* A reset of the device destroys streams. A relay with such streams stays busy. */
static bool is_usable(const dma_relay_t *r)
{
    dma_gpu_scope_t scope;
    bool well = false;

    if (r->rt->enter(r->device, &scope) == DMA_OK) {
        well = query_streams(r) == DMA_OK;
        r->rt->leave(&scope);
    }
    return well;
}

/* With the lock. The smallest that is large enough. */
static dma_relay_t *find_free(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece)
{
    dma_relay_t *found;

    do {
        found = NULL;
        for (dma_relay_t *r = proc->relays; r; r = r->next) {
            if (!r->busy && r->rt == rt && r->device == device && r->piece >= piece &&
                (!found || r->piece < found->piece)) {
                found = r;
            }
        }
        if (found) {
            found->busy = true;
        }
    } while (found && !is_usable(found));
    return found;
}

/* A runtime that has been shut down has freed its objects. */
static void destroy_relay(dma_relay_t *r)
{
    dma_status_t status = DMA_OK;
    dma_gpu_scope_t scope;

    if (r->rt->enter_to_release(r->device, &scope) == DMA_OK) {
        status = query_streams(r);
        if (status != DMA_AGAIN) {
            status = destroy_objects(r);
        }
        r->rt->leave(&scope);
    }
    free_memory(r, status == DMA_AGAIN);
}

/* With the lock. Makes room in the budget; returns whether there was a free relay. */
static bool destroy_free(dma_proc_t *proc)
{
    bool any = false;

    for (dma_relay_t **link = &proc->relays, *r; (r = *link);) {
        if (r->busy) {
            link = &r->next;
        } else {
            *link = r->next;
            destroy_relay(r);
            any = true;
        }
    }
    return any;
}

/* The next power of two, so that calls of similar size share relays. */
static uint64_t round_up(uint64_t piece)
{
    uint64_t bytes = SMALLEST_PIECE;

    while (bytes < piece) {
        bytes *= 2;
    }
    return bytes;
}

dma_status_t dma_relay_acquire(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece,
                               dma_relay_t **relay)
{
    dma_status_t status = DMA_OK;
    dma_relay_t *r;

    piece = round_up(piece);
    pthread_mutex_lock(&proc->device_lock);
    if (!(r = find_free(proc, rt, device, piece))) {
        status = create_relay(proc, rt, device, piece, &r);
        if (status == DMA_ERR_NOMEM && destroy_free(proc)) {
            status = create_relay(proc, rt, device, piece, &r);
        }
        if (status == DMA_OK) {
            r->next = proc->relays;
            proc->relays = r;
        }
    }
    pthread_mutex_unlock(&proc->device_lock);
    if (status == DMA_OK) {
        *relay = r;
    }
    return status;
}

/* In scope. Scratch that a call could not do without is kept only as far as the budget allows it. */
static void trim_scratch(dma_relay_t *r)
{
    if (r->scratch && !dma_budget_left(r->budget, DMA_BUDGET_DEVICE)) {
        (void)r->rt->free(r->scratch);
        dma_budget_give(r->budget, DMA_BUDGET_DEVICE, r->scratch_bytes);
        r->scratch = r->scratch_bytes = 0;
    }
}

void dma_relay_release(dma_proc_t *proc, dma_relay_t *r)
{
    double end = dma_now() + r->timeout;
    dma_status_t status;
    dma_gpu_scope_t scope;

    if ((status = r->rt->enter(r->device, &scope)) == DMA_OK) {
        while ((status = query_streams(r)) == DMA_AGAIN && dma_now() < end) {
            dma_cpu_pause();
        }
        if (status == DMA_OK) {
            trim_scratch(r);
        }
        r->rt->leave(&scope);
    }
    pthread_mutex_lock(&proc->device_lock);
    r->busy = status != DMA_OK;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_relays_destroy(dma_proc_t *proc)
{
    dma_relay_t *next;

    for (dma_relay_t *r = proc->relays; r; r = next) {
        next = r->next;
        destroy_relay(r);
    }
    proc->relays = NULL;
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
    return r->memory + slot_offset(r, dir, slot);
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

static dma_status_t copy(dma_relay_t *r, dma_relay_dir_t dir, unsigned slot, const dma_rect_t *rect)
{
    dma_gpu_scope_t scope;
    dma_status_t status = r->rt->enter(r->device, &scope);

    if (status == DMA_OK) {
        status = dma_gpu_copy_rect(r->rt, r->stream[dir], rect);
        if (status == DMA_OK) {
            status = r->rt->event_record(r->event[dir][slot], r->stream[dir]);
        }
        r->moved[dir] = dma_now();
        r->rt->leave(&scope);
    }
    return engine_status(status);
}

dma_status_t dma_relay_fill(dma_relay_t *r, unsigned slot, const char *from, uint64_t bytes)
{
    uint64_t to = r->pinned + slot_offset(r, DMA_RELAY_OUT, slot);

    return copy(r, DMA_RELAY_OUT, slot, &(dma_rect_t){.dst = to, .src = address(from), .row_bytes = bytes, .rows = 1});
}

dma_status_t dma_relay_drain(dma_relay_t *r, unsigned slot, char *to, uint64_t bytes)
{
    uint64_t from = r->pinned + slot_offset(r, DMA_RELAY_IN, slot);

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
    dma_gpu_scope_t scope;
    dma_status_t status = r->rt->enter(r->device, &scope);

    if (status == DMA_OK) {
        status = r->rt->event_query(r->event[dir][slot]);
        r->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        r->moved[dir] = dma_now();
    } else if (status == DMA_AGAIN && r->timeout > 0 && dma_now() - r->moved[dir] > r->timeout) {
        status = DMA_ERR_ENGINE;
    }
    return engine_status(status);
}

/* ---- scratch ---- */

dma_status_t dma_relay_scratch(dma_relay_t *r, uint64_t bytes, char **scratch, bool *on_device)
{
    dma_gpu_scope_t scope;
    dma_status_t status = DMA_OK;

    if (bytes <= DMA_RELAY_PAD) {
        *scratch = r->memory + slot_offset(r, DMA_RELAY_LOCAL, 0);
        *on_device = false;
        return DMA_OK;
    }
    if (bytes > r->scratch_bytes && (status = r->rt->enter(r->device, &scope)) == DMA_OK) {
        uint64_t before = r->scratch_bytes;

        status = dma_gpu_grow(r->rt, &r->scratch, &r->scratch_bytes, bytes);
        dma_budget_force(r->budget, DMA_BUDGET_DEVICE, r->scratch_bytes - before); /* the plan cannot do without */
        r->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        *scratch = (char *)(uintptr_t)r->scratch;
        *on_device = true;
    }
    return engine_status(status);
}
