/* Pinned slots between device memory and the network: see relay.h. */
#include "cluster/relay.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "device/device.h"

struct dma_relay {
    dma_relay_t *next;
    const dma_gpu_runtime_t *rt;
    int device;
    bool busy; /* guarded by the process's device lock, as is the list */
    uint64_t piece;
    unsigned slots;
    char *memory;
    uint64_t bytes;
    uint64_t pinned; /* where the device sees it */
    dma_gpu_stream_t *stream[DMA_RELAY_WAYS];
    dma_gpu_event_t *event[DMA_RELAY_WAYS][DMA_RELAY_SLOTS];
    double timeout;                  /* seconds */
    double moved[DMA_RELAY_WAYS];    /* when a copy was last given to the engine, or seen to be complete */
    uint64_t scratch, scratch_bytes; /* device memory */
};

/* ---- life ---- */

/* In scope. Takes back what has been made. */
static void unmake(dma_relay_t *r)
{
    const dma_gpu_runtime_t *rt = r->rt;

    if (r->scratch) {
        (void)rt->free(r->scratch);
    }
    for (int way = 0; way < DMA_RELAY_WAYS; way++) {
        for (unsigned i = 0; i < DMA_RELAY_SLOTS; i++) {
            if (r->event[way][i]) {
                (void)rt->event_destroy(r->event[way][i]);
            }
        }
        if (r->stream[way]) {
            (void)rt->stream_destroy(r->stream[way]);
        }
    }
    if (r->pinned) {
        (void)rt->host_unregister(r->memory);
    }
}

/* In scope. */
static dma_status_t make(dma_relay_t *r)
{
    const dma_gpu_runtime_t *rt = r->rt;
    dma_status_t status = rt->host_register(r->memory, r->bytes, &r->pinned);

    for (int way = 0; status == DMA_OK && way < DMA_RELAY_WAYS; way++) {
        status = rt->stream_create(&r->stream[way]);
        for (unsigned i = 0; status == DMA_OK && i < (way == DMA_RELAY_INSIDE ? 1 : r->slots); i++) {
            status = rt->event_create(&r->event[way][i]);
        }
    }
    return status;
}

static dma_status_t create(const dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece,
                           dma_relay_t **result)
{
    dma_relay_t *r = calloc(1, sizeof(*r));
    uint64_t slots = DMA_RELAY_BYTES / piece;
    dma_gpu_scope_t scope;
    dma_status_t status;

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
    r->memory = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r->memory == MAP_FAILED) {
        free(r);
        return DMA_ERR_NOMEM;
    }
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = make(r);
        if (status != DMA_OK) {
            unmake(r);
        }
        rt->leave(&scope);
    }
    if (status != DMA_OK) {
        munmap(r->memory, r->bytes);
        free(r);
        return status;
    }
    *result = r;
    return DMA_OK;
}

/* In scope. DMA_OK when no copy is under way, DMA_AGAIN, or an error: a stream that a reset of the device has taken along,
 * which may not be used in any other way. */
static dma_status_t rest(const dma_relay_t *r)
{
    dma_status_t all = DMA_OK;

    for (int way = 0; way < DMA_RELAY_WAYS; way++) {
        dma_status_t status = r->rt->stream_query(r->stream[way]);

        all = status == DMA_OK || all < 0 ? all : status;
    }
    return all;
}

/* A reset of the device takes streams along; such a relay stays busy for good. */
static bool alive(const dma_relay_t *r)
{
    dma_gpu_scope_t scope;
    bool well = false;

    if (r->rt->enter(r->device, &scope) == DMA_OK) {
        well = rest(r) == DMA_OK;
        r->rt->leave(&scope);
    }
    return well;
}

/* With the lock. */
static dma_relay_t *find(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece)
{
    for (dma_relay_t *r = proc->relays; r; r = r->next) {
        if (!r->busy && r->rt == rt && r->device == device && r->piece >= piece) {
            r->busy = true;
            if (alive(r)) {
                return r;
            }
        }
    }
    return NULL;
}

dma_status_t dma_relay_take(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t piece,
                            dma_relay_t **relay)
{
    dma_status_t status = DMA_OK;
    dma_relay_t *r;

    pthread_mutex_lock(&proc->device_lock);
    if (!(r = find(proc, rt, device, piece)) && (status = create(proc, rt, device, piece, &r)) == DMA_OK) {
        r->next = proc->relays;
        proc->relays = r;
    }
    pthread_mutex_unlock(&proc->device_lock);
    if (status == DMA_OK) {
        *relay = r;
    }
    return status;
}

void dma_relay_give(dma_proc_t *proc, dma_relay_t *r)
{
    double end = dma_now() + r->timeout;
    dma_status_t status;
    dma_gpu_scope_t scope;

    if ((status = r->rt->enter(r->device, &scope)) == DMA_OK) {
        while ((status = rest(r)) == DMA_AGAIN && dma_now() < end) {
            dma_cpu_pause();
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
        dma_status_t status = DMA_OK;
        dma_gpu_scope_t scope;

        next = r->next;
        /* where there is no runtime any more, nothing is left of what it has made */
        if (r->rt->enter(r->device, &scope) == DMA_OK) {
            status = rest(r);
            if (status == DMA_OK) {
                unmake(r);
            }
            r->rt->leave(&scope);
        }
        if (status != DMA_AGAIN) { /* else an engine may still get to a copy, however late */
            munmap(r->memory, r->bytes);
        }
        free(r);
    }
    proc->relays = NULL;
}

/* ---- copies ---- */

unsigned dma_relay_slots(const dma_relay_t *r)
{
    return r->slots;
}

static uint64_t offset(const dma_relay_t *r, dma_relay_way_t way, unsigned slot)
{
    return (way * r->slots + slot) * r->piece;
}

char *dma_relay_slot(const dma_relay_t *r, dma_relay_way_t way, unsigned slot)
{
    return r->memory + offset(r, way, slot);
}

static uint64_t address(const char *p)
{
    return (uint64_t)(uintptr_t)p;
}

/* A runtime that has no answer any more is an engine that has failed. */
static dma_status_t verdict(dma_status_t status)
{
    return status == DMA_UNSUPPORTED ? DMA_ERR_ENGINE : status;
}

static dma_status_t copy(dma_relay_t *r, dma_relay_way_t way, unsigned slot, const dma_rect_t *rect)
{
    dma_gpu_scope_t scope;
    dma_status_t status = r->rt->enter(r->device, &scope);

    if (status == DMA_OK) {
        status = dma_gpu_copy_rect(r->rt, r->stream[way], rect);
        if (status == DMA_OK) {
            status = r->rt->event_record(r->event[way][slot], r->stream[way]);
        }
        r->moved[way] = dma_now();
        r->rt->leave(&scope);
    }
    return verdict(status);
}

dma_status_t dma_relay_fill(dma_relay_t *r, unsigned slot, const char *from, uint64_t bytes)
{
    uint64_t to = r->pinned + offset(r, DMA_RELAY_OUT, slot);

    return copy(r, DMA_RELAY_OUT, slot, &(dma_rect_t){.dst = to, .src = address(from), .row_bytes = bytes, .rows = 1});
}

dma_status_t dma_relay_drain(dma_relay_t *r, unsigned slot, char *to, uint64_t bytes)
{
    uint64_t from = r->pinned + offset(r, DMA_RELAY_IN, slot);

    return copy(r, DMA_RELAY_IN, slot, &(dma_rect_t){.dst = address(to), .src = from, .row_bytes = bytes, .rows = 1});
}

dma_status_t dma_relay_copy(dma_relay_t *r, char *to, int64_t to_pitch, const char *from, int64_t from_pitch,
                            uint64_t bytes, uint32_t rows)
{
    return copy(r, DMA_RELAY_INSIDE, 0,
                &(dma_rect_t){.dst = address(to),
                              .src = address(from),
                              .dst_pitch = (uint64_t)to_pitch,
                              .src_pitch = (uint64_t)from_pitch,
                              .row_bytes = bytes,
                              .rows = rows});
}

dma_status_t dma_relay_test(dma_relay_t *r, dma_relay_way_t way, unsigned slot)
{
    dma_gpu_scope_t scope;
    dma_status_t status = r->rt->enter(r->device, &scope);

    if (status == DMA_OK) {
        status = r->rt->event_query(r->event[way][slot]);
        r->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        r->moved[way] = dma_now();
    } else if (status == DMA_AGAIN && r->timeout > 0 && dma_now() - r->moved[way] > r->timeout) {
        status = DMA_ERR_ENGINE;
    }
    return verdict(status);
}

/* ---- scratch ---- */

/* In scope. */
static dma_status_t reserve(dma_relay_t *r, uint64_t bytes)
{
    uint64_t addr;
    dma_status_t status;

    bytes += bytes / 2; /* a new one is new to the peers on the node: not for every call that is a bit larger */
    if ((status = r->rt->alloc(bytes, &addr)) != DMA_OK) {
        return status;
    }
    if (r->scratch) {
        (void)r->rt->free(r->scratch);
    }
    r->scratch = addr;
    r->scratch_bytes = bytes;
    return DMA_OK;
}

dma_status_t dma_relay_scratch(dma_relay_t *r, uint64_t bytes, char **scratch, bool *on_device)
{
    dma_gpu_scope_t scope;
    dma_status_t status = DMA_OK;

    if (bytes <= DMA_RELAY_PAD) {
        *scratch = r->memory + offset(r, DMA_RELAY_INSIDE, 0);
        *on_device = false;
        return DMA_OK;
    }
    if (bytes > r->scratch_bytes && (status = r->rt->enter(r->device, &scope)) == DMA_OK) {
        status = reserve(r, bytes);
        r->rt->leave(&scope);
    }
    if (status == DMA_OK) {
        *scratch = (char *)(uintptr_t)r->scratch;
        *on_device = true;
    }
    return verdict(status);
}
