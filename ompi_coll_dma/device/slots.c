/* Slots: see slots.h. */
#include "device/slots.h"

#include <stdlib.h>

#include "device/lease.h"
#include "gpu/ipc.h"

/* ---- making and freeing; with the device lock ---- */

static void destroy_objects(dma_slots_t *s)
{
    for (int i = 0; i < DMA_SLOTS_STREAMS; i++) {
        for (int k = 0; k < DMA_SLOTS; k++) {
            if (s->event[i][k]) {
                (void)s->rt->event_destroy(s->event[i][k]);
            }
        }
        if (s->stream[i]) {
            (void)s->rt->stream_destroy(s->stream[i]);
        }
    }
}

/* In scope. */
static dma_status_t make_objects(dma_slots_t *s)
{
    dma_status_t status = DMA_OK;

    for (int i = 0; i < DMA_SLOTS_STREAMS && status == DMA_OK; i++) {
        if ((status = s->rt->stream_create(&s->stream[i])) != DMA_OK) {
            s->stream[i] = NULL;
        }
        for (int k = 0; k < DMA_SLOTS && status == DMA_OK; k++) {
            if ((status = s->rt->event_create(&s->event[i][k])) != DMA_OK) {
                s->event[i][k] = NULL;
            }
        }
    }
    if (status != DMA_OK) {
        destroy_objects(s);
    }
    return status;
}

/* Peers that read the block are not counted: a call ends when they have read it. */
static bool allocate_block(dma_proc_t *proc, dma_slots_t *s)
{
    uintptr_t first;

    pthread_mutex_lock(&proc->lock);
    s->block =
        dma_arena_alloc(s->arena, sizeof(dma_block_head_t) + DMA_SLOTS_PAGE + s->bytes, sizeof(dma_block_head_t), 0);
    pthread_mutex_unlock(&proc->lock);
    if (!s->block) {
        return false;
    }
    first = (uintptr_t)s->block + sizeof(dma_block_head_t);
    s->memory = (char *)((first + DMA_SLOTS_PAGE - 1) / DMA_SLOTS_PAGE * DMA_SLOTS_PAGE);
    return true;
}

static void free_block(dma_proc_t *proc, const dma_slots_t *s)
{
    pthread_mutex_lock(&proc->lock);
    dma_arena_retire(s->arena, s->block);
    pthread_mutex_unlock(&proc->lock);
}

/* NULL: there is no room for so many bytes. */
static dma_slots_t *make(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_proc_t *proc = comm->proc;
    dma_slots_t *s = calloc(1, sizeof(*s));
    dma_status_t status = DMA_ERR_NOMEM;
    dma_gpu_scope_t scope;

    if (!s) {
        return NULL;
    }
    *s = (dma_slots_t){.rt = rt,
                       .device = device,
                       .resets = rt ? dma_gpu_resets(rt, device) : 0,
                       .arena = comm->window.arena,
                       .bytes = bytes};
    if (!dma_budget_take(&proc->budget, DMA_BUDGET_PINNED, bytes)) {
        free(s);
        return NULL;
    }
    if (allocate_block(proc, s)) {
        if (!rt) {
            status = DMA_OK;
        } else if ((status = rt->enter(device, &scope)) == DMA_OK) {
            status = make_objects(s);
            rt->leave(&scope);
        }
        if (status != DMA_OK) {
            free_block(proc, s);
        }
    }
    if (status != DMA_OK) {
        dma_budget_give(&proc->budget, DMA_BUDGET_PINNED, bytes);
        free(s);
        return NULL;
    }
    s->next = proc->slots;
    return proc->slots = s;
}

/* The slots are in no list. */
static void destroy(dma_proc_t *proc, dma_slots_t *s)
{
    dma_gpu_scope_t scope;

    if (s->rt && s->rt->enter_to_release(s->device, &scope) == DMA_OK) {
        destroy_objects(s);
        s->rt->leave(&scope);
    }
    free_block(proc, s);
    dma_budget_give(&proc->budget, DMA_BUDGET_PINNED, s->bytes);
    free(s);
}

/* ---- the list; with the device lock ---- */

typedef bool matches_fn(const dma_proc_t *proc, const dma_slots_t *s, const void *arg);

/* Destroys idle slots; `matches` says which, and may look at what the others have given back. */
static void destroy_idle(dma_proc_t *proc, matches_fn *matches, const void *arg)
{
    for (dma_slots_t **link = &proc->slots, *s; (s = *link);) {
        if (!s->busy && matches(proc, s, arg)) {
            *link = s->next;
            destroy(proc, s);
        } else {
            link = &s->next;
        }
    }
}

typedef struct owner {
    const dma_gpu_runtime_t *rt;
    int device;
} owner_t;

static bool is_of_device(const dma_proc_t *proc, const dma_slots_t *s, const void *arg)
{
    const owner_t *owner = arg;

    (void)proc;
    return s->rt == owner->rt && s->device == owner->device;
}

static bool is_needed(const dma_proc_t *proc, const dma_slots_t *s, const void *arg)
{
    (void)s;
    return dma_budget_left(&proc->budget, DMA_BUDGET_PINNED) < *(const uint64_t *)arg;
}

static bool is_in_arena(const dma_proc_t *proc, const dma_slots_t *s, const void *arg)
{
    (void)proc;
    return s->arena == arg;
}

static bool is_lost(const dma_proc_t *proc, const dma_slots_t *s, const void *arg)
{
    (void)proc;
    (void)arg;
    return s->rt && s->resets != dma_gpu_resets(s->rt, s->device);
}

void dma_slots_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    destroy_idle(proc, is_of_device, &(owner_t){rt, device});
}

void dma_slots_trim_host(dma_proc_t *proc)
{
    pthread_mutex_lock(&proc->device_lock);
    destroy_idle(proc, is_of_device, &(owner_t){NULL, -1});
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_slots_make_room(dma_proc_t *proc, uint64_t bytes)
{
    destroy_idle(proc, is_needed, &bytes);
}

void dma_slots_destroy(dma_proc_t *proc)
{
    dma_slots_t *s;

    while ((s = proc->slots)) {
        proc->slots = s->next;
        destroy(proc, s);
    }
}

static dma_slots_t *find_idle(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t least)
{
    dma_slots_t *s;

    destroy_idle(comm->proc, is_lost, NULL);
    for (s = comm->proc->slots; s; s = s->next) {
        if (!s->busy && s->rt == rt && s->device == device && s->arena == comm->window.arena && s->bytes >= least) {
            break;
        }
    }
    return s;
}

/* ---- for calls ---- */

dma_slots_t *dma_slots_get(dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t least)
{
    dma_proc_t *proc = comm->proc;
    dma_slots_t *s;

    pthread_mutex_lock(&proc->device_lock);
    s = find_idle(comm, rt, device, least);
    for (uint64_t bytes = DMA_SLOTS_MOST; !s && bytes >= least; bytes /= 2) {
        if (rt) {
            dma_lease_make_room(proc, DMA_LEASE_PINNED, bytes);
        }
        s = make(comm, rt, device, bytes);
    }
    if (s) {
        s->busy = true;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return s;
}

/* Query first: a stream that a reset of the device has destroyed must not be synchronized. */
static void wait_for_copies(const dma_slots_t *s)
{
    dma_gpu_scope_t scope;

    if (s->rt && s->rt->enter_to_release(s->device, &scope) == DMA_OK) {
        for (int i = 0; i < DMA_SLOTS_STREAMS; i++) {
            if (s->rt->stream_query(s->stream[i]) == DMA_AGAIN) {
                (void)s->rt->stream_sync(s->stream[i]);
            }
        }
        s->rt->leave(&scope);
    }
}

void dma_slots_put(dma_proc_t *proc, dma_slots_t *s)
{
    wait_for_copies(s);
    pthread_mutex_lock(&proc->device_lock);
    s->busy = false;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_slots_leave(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;

    if (!comm->file_arena) {
        return;
    }
    pthread_mutex_lock(&proc->device_lock);
    destroy_idle(proc, is_in_arena, comm->file_arena);
    pthread_mutex_unlock(&proc->device_lock);
}

/* ---- registrations ---- */

void dma_slots_unregister(const dma_comm_t *comm, int rank, const char *addr)
{
    if (dma_ipc_unregister(comm->proc->ipc, addr) != DMA_AGAIN) {
        return;
    }
    if (rank == comm->rank) {
        dma_arena_keep_mapped(comm->window.arena);
    } else {
        dma_registry_share(comm->window.peers[rank].mapping); /* until the process ends */
    }
}

void dma_slots_unview(const dma_comm_t *comm, int rank, dma_slots_view_t *view)
{
    if (view->addr) {
        dma_slots_unregister(comm, rank, view->addr);
        view->addr = NULL;
    }
}

dma_status_t dma_slots_view(const dma_comm_t *comm, int device, int rank, char *addr, uint64_t bytes, bool whole,
                            dma_slots_view_t *view)
{
    const dma_mapping_t *m = comm->window.peers[rank].mapping;
    dma_slots_view_t wanted = {.addr = whole ? m->base : addr, .bytes = whole ? m->bytes : bytes};
    uint64_t at;
    dma_status_t status;

    if (view->addr == wanted.addr && view->bytes == wanted.bytes) {
        return DMA_OK;
    }
    dma_slots_unview(comm, rank, view);
    status = dma_ipc_register(comm->proc->ipc, device, wanted.addr, wanted.bytes, &at);
    if (status == DMA_OK) {
        *view = wanted;
    }
    return status;
}
