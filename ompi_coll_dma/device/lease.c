/* Leases: see lease.h. Functions here have the device lock, unless lease.h declares them without it. */
#include "device/lease.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "dma/clock.h"
#include "node/pause.h"

#define PAGE       UINT64_C(4096)
#define LEAST_ROOM (UINT64_C(1) << 20) /* below it device memory is not made smaller because the device has no room */
/* CUDA puts memory of other sizes on smaller pages: peers then write 64 MiB and more at three quarters of the speed. */
#define DEVICE_PAGE (UINT64_C(2) << 20)

static dma_budget_kind_t budget_of(dma_lease_kind_t kind)
{
    return kind == DMA_LEASE_DEVICE ? DMA_BUDGET_DEVICE : DMA_BUDGET_PINNED;
}

/* ---- making and freeing ---- */

/* In scope. Makes the streams and events that are missing. */
static dma_status_t make_objects(dma_lease_t *l, unsigned streams, unsigned events)
{
    dma_status_t status = DMA_OK;

    while (status == DMA_OK && l->streams < streams) {
        status = l->rt->stream_create(&l->stream[l->streams]);
        l->streams += status == DMA_OK;
    }
    while (status == DMA_OK && l->events < events) {
        status = l->rt->event_create(&l->event[l->events]);
        l->events += status == DMA_OK;
    }
    return status;
}

/* In scope. */
static dma_status_t acquire(dma_lease_t *l)
{
    dma_status_t status = DMA_OK;

    if (l->kind == DMA_LEASE_PINNED) {
        status = l->rt->host_register(l->memory, l->bytes, &l->addr);
    } else if (l->kind == DMA_LEASE_DEVICE && (status = l->rt->alloc(l->bytes, &l->addr)) == DMA_OK) {
        dma_gpu_classify(l->rt, l->addr, l->bytes, &l->about);
    }
    return status;
}

/* In the scope of enter_to_release. False: not now, so nothing has been released. */
static bool release(dma_lease_t *l)
{
    if (l->kind == DMA_LEASE_PINNED && l->rt->host_unregister(l->memory) == DMA_AGAIN) {
        return false;
    }
    while (l->events) {
        (void)l->rt->event_destroy(l->event[--l->events]);
    }
    while (l->streams) {
        (void)l->rt->stream_destroy(l->stream[--l->streams]);
    }
    if (l->kind == DMA_LEASE_DEVICE) {
        (void)l->rt->free(l->addr);
    }
    return true;
}

/* Makes what the runtime gives. After an error nothing is left, unless *kept: the memory is still registered. */
static dma_status_t make_in_runtime(dma_lease_t *l, const dma_lease_want_t *w, bool *kept)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    *kept = false;
    if (!l->rt || (status = l->rt->enter(l->device, &scope)) != DMA_OK) {
        return l->rt ? status : DMA_OK;
    }
    if ((status = acquire(l)) == DMA_OK && (status = make_objects(l, w->streams, w->events)) != DMA_OK) {
        *kept = !release(l);
    }
    l->rt->leave(&scope);
    return status;
}

/* Peers that read a block of the arena are not counted: a call ends when they have read it. */
static void map_block(dma_proc_t *proc, dma_lease_t *l)
{
    const size_t head = sizeof(dma_block_head_t);

    pthread_mutex_lock(&proc->lock);
    l->block = dma_arena_alloc(l->arena, head + PAGE + l->bytes, head, 0);
    pthread_mutex_unlock(&proc->lock);
    if (l->block) {
        l->memory = (char *)(uintptr_t)(((uintptr_t)l->block + head + PAGE - 1) / PAGE * PAGE);
    }
}

static dma_status_t map_memory(dma_proc_t *proc, dma_lease_t *l)
{
    if (l->kind == DMA_LEASE_SHARED) {
        map_block(proc, l);
    } else if (l->kind == DMA_LEASE_PINNED) {
        l->memory = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        l->memory = l->memory == MAP_FAILED ? NULL : l->memory;
    }
    return l->memory || l->kind == DMA_LEASE_DEVICE ? DMA_OK : DMA_ERR_NOMEM;
}

static void unmap_memory(dma_proc_t *proc, const dma_lease_t *l)
{
    if (l->kind == DMA_LEASE_PINNED) {
        munmap(l->memory, l->bytes);
    } else if (l->block) {
        pthread_mutex_lock(&proc->lock);
        dma_arena_retire(l->arena, l->block);
        pthread_mutex_unlock(&proc->lock);
    }
}

static dma_status_t make(dma_proc_t *proc, const dma_lease_want_t *w, uint64_t bytes, dma_lease_t **result)
{
    dma_lease_t *l = calloc(1, sizeof(*l));
    dma_status_t status;
    bool kept;

    if (!l) {
        return DMA_ERR_NOMEM;
    }
    *l = (dma_lease_t){.kind = w->kind, .rt = w->rt, .device = w->device, .arena = w->arena, .bytes = bytes};
    if (!dma_budget_take(&proc->budget, budget_of(l->kind), bytes)) {
        if (!w->must) {
            free(l);
            return DMA_ERR_NOMEM;
        }
        dma_budget_force(&proc->budget, budget_of(l->kind), bytes);
        l->beyond = true;
    }
    if ((status = map_memory(proc, l)) == DMA_OK && (status = make_in_runtime(l, w, &kept)) != DMA_OK && !kept) {
        unmap_memory(proc, l);
    }
    if (status != DMA_OK) {
        dma_budget_give(&proc->budget, budget_of(l->kind), bytes);
        free(l);
        return status;
    }
    l->next = proc->leases;
    *result = proc->leases = l;
    return DMA_OK;
}

/* Frees memory that nobody uses. False: not now, and it stays. */
static bool destroy(dma_proc_t *proc, dma_lease_t *l)
{
    dma_lease_t **link = &proc->leases;
    dma_gpu_scope_t scope;
    bool released = true;

    if (l->rt && l->rt->enter_to_release(l->device, &scope) == DMA_OK) {
        released = release(l);
        l->rt->leave(&scope);
    }
    if (!released) {
        return false;
    }
    while (*link != l) {
        link = &(*link)->next;
    }
    *link = l->next;
    unmap_memory(proc, l);
    dma_budget_give(&proc->budget, budget_of(l->kind), l->bytes);
    free(l);
    return true;
}

/* ---- what is idle ---- */

static bool is_idle_of(const dma_lease_t *l, const dma_gpu_runtime_t *rt, int device)
{
    return l->state == DMA_LEASE_IDLE && l->rt == rt && l->device == device;
}

/* Is it idle, and of the kind that is wanted? */
static bool serves(const dma_lease_t *l, const dma_lease_want_t *w)
{
    return is_idle_of(l, w->rt, w->device) && l->kind == w->kind && l->arena == w->arena;
}

/* The smallest idle memory of at least `bytes` bytes, else NULL. */
static dma_lease_t *find(const dma_proc_t *proc, const dma_lease_want_t *w, uint64_t bytes)
{
    dma_lease_t *best = NULL;

    for (dma_lease_t *l = proc->leases; l; l = l->next) {
        if (serves(l, w) && l->bytes >= bytes && (!best || l->bytes < best->bytes)) {
            best = l;
        }
    }
    return best;
}

void dma_lease_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    for (dma_lease_t *l = proc->leases, *next; l; l = next) {
        next = l->next;
        if (is_idle_of(l, rt, device)) {
            (void)destroy(proc, l);
        }
    }
}

/* The idle memory of a bound that has not been used for longest, else NULL. */
static dma_lease_t *find_oldest(const dma_proc_t *proc, dma_budget_kind_t kind)
{
    dma_lease_t *oldest = NULL;

    for (dma_lease_t *l = proc->leases; l; l = l->next) {
        if (l->state == DMA_LEASE_IDLE && budget_of(l->kind) == kind && (!oldest || l->used < oldest->used)) {
            oldest = l;
        }
    }
    return oldest;
}

/* For new memory of so many bytes. What is idle and would serve is smaller. */
static void make_room_for(dma_proc_t *proc, const dma_lease_want_t *w, uint64_t bytes)
{
    dma_budget_kind_t kind = budget_of(w->kind);
    dma_lease_t *oldest;

    for (dma_lease_t *l = proc->leases, *next; l; l = next) {
        next = l->next;
        if (serves(l, w)) {
            (void)destroy(proc, l);
        }
    }
    while (dma_budget_left(&proc->budget, kind) < bytes && (oldest = find_oldest(proc, kind)) &&
           destroy(proc, oldest)) {
    }
}

/* ---- choosing ---- */

/* What the call could have if nothing were idle. */
static uint64_t allowance(const dma_proc_t *proc, dma_lease_kind_t kind)
{
    uint64_t left = dma_budget_left(&proc->budget, budget_of(kind));

    for (const dma_lease_t *l = proc->leases; l; l = l->next) {
        left += l->state == DMA_LEASE_IDLE && budget_of(l->kind) == budget_of(kind) ? l->bytes : 0;
    }
    return left;
}

static uint64_t round_up(uint64_t bytes, uint64_t page)
{
    return (bytes + page - 1) / page * page;
}

/* What the call gets out of `most` bytes: as much as it wants, or less. 0: that is less than it needs. */
static uint64_t share_of(const dma_lease_want_t *w, uint64_t most)
{
    uint64_t bytes = w->bytes;

    while (!w->must && bytes > most && bytes > w->least) {
        bytes = w->kind == DMA_LEASE_DEVICE ? most / 2 : bytes / 2 / PAGE * PAGE;
        bytes = bytes > w->least ? bytes : w->least;
    }
    return bytes <= most || w->must ? bytes : 0;
}

/* Of new memory for `bytes` bytes out of `most`. */
static uint64_t new_size(const dma_lease_want_t *w, uint64_t bytes, uint64_t most)
{
    uint64_t grown = w->exact || bytes < w->bytes || bytes > most / 2 ? bytes : bytes + bytes / 2, pages;

    if (w->kind != DMA_LEASE_DEVICE) {
        return grown / PAGE * PAGE;
    }
    pages = round_up(grown, DEVICE_PAGE);
    return grown < DEVICE_PAGE || pages > most || w->exact ? grown : pages;
}

static dma_status_t find_or_make(dma_proc_t *proc, const dma_lease_want_t *w, dma_lease_t **result)
{
    uint64_t most, bytes, size, least = w->least;
    dma_status_t status;

    /* Less shared memory is nearly as good, and the arena may have no room for more. */
    if ((*result = find(proc, w, w->kind == DMA_LEASE_SHARED ? w->least : w->bytes))) {
        return DMA_OK;
    }
    most = allowance(proc, w->kind);
    bytes = share_of(w, most);
    if (!bytes) {
        return DMA_ERR_NOMEM;
    }
    if (bytes < w->bytes && (*result = find(proc, w, bytes))) {
        return DMA_OK;
    }
    least = w->kind == DMA_LEASE_DEVICE && least < LEAST_ROOM ? LEAST_ROOM : least;
    size = new_size(w, bytes, most);
    make_room_for(proc, w, size);
    while ((status = make(proc, w, size, result)) == DMA_ERR_NOMEM && size / 2 >= least) {
        size = size / 2 / PAGE * PAGE;
    }
    return status;
}

/* ---- for calls ---- */

/* Of memory that another call has had: makes what it lacks. */
static dma_status_t complete(dma_lease_t *l, const dma_lease_want_t *w)
{
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (l->streams >= w->streams && l->events >= w->events) {
        return DMA_OK;
    }
    if ((status = l->rt->enter(l->device, &scope)) == DMA_OK) {
        status = make_objects(l, w->streams, w->events);
        l->rt->leave(&scope);
    }
    return status;
}

dma_status_t dma_lease_take(dma_proc_t *proc, const dma_lease_want_t *want, dma_lease_t **lease)
{
    dma_lease_want_t w = *want;
    dma_lease_t *l;
    dma_status_t status;

    w.least = w.least < w.bytes ? w.least : w.bytes;
    if (w.kind != DMA_LEASE_DEVICE) {
        if (w.bytes > UINT64_MAX - PAGE) {
            return DMA_ERR_NOMEM;
        }
        w.bytes = w.bytes ? round_up(w.bytes, PAGE) : PAGE;
        w.least = round_up(w.least, PAGE);
    }
    pthread_mutex_lock(&proc->device_lock);
    if ((status = find_or_make(proc, &w, &l)) == DMA_OK && (status = complete(l, &w)) == DMA_OK) {
        l->state = DMA_LEASE_TAKEN;
        l->comm = w.comm;
        l->used = ++proc->lease_uses;
        *lease = l;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return status;
}

/* DMA_AGAIN: a copy is under way. An error: nothing tells. */
static dma_status_t query_streams(const dma_lease_t *l)
{
    dma_gpu_scope_t scope;
    dma_status_t all = l->streams ? DMA_OK : DMA_ERR_ENGINE;

    if (!l->rt || l->rt->enter_to_release(l->device, &scope) != DMA_OK) {
        return DMA_OK;
    }
    for (unsigned i = 0; i < l->streams; i++) {
        dma_status_t status = l->rt->stream_query(l->stream[i]);

        all = status == DMA_OK || all < 0 ? all : status;
    }
    l->rt->leave(&scope);
    return all;
}

/* Without the lock. Waits for the copies of the call, but not for ever: a device may hang. */
static void wait_for_copies(const dma_proc_t *proc, dma_lease_t *l)
{
    double end = dma_now() + proc->params.timeout;
    dma_status_t status = DMA_OK;
    dma_pause_t pause = {0};

    while (l->copies && (status = query_streams(l)) == DMA_AGAIN && dma_now() < end) {
        dma_pause(&pause);
    }
    l->copies = status != DMA_OK;
}

static bool end_call(dma_proc_t *proc, dma_lease_t *l, dma_lease_state_t state)
{
    bool ended;

    wait_for_copies(proc, l);
    ended = !l->copies;
    pthread_mutex_lock(&proc->device_lock);
    l->state = state == DMA_LEASE_IDLE && !ended ? DMA_LEASE_LATE : state;
    if (l->state == DMA_LEASE_IDLE && l->beyond) {
        (void)destroy(proc, l);
    }
    pthread_mutex_unlock(&proc->device_lock);
    return ended;
}

bool dma_lease_give_back(dma_proc_t *proc, dma_lease_t *l)
{
    return end_call(proc, l, DMA_LEASE_IDLE);
}

void dma_lease_lose(dma_proc_t *proc, dma_lease_t *l)
{
    (void)end_call(proc, l, DMA_LEASE_LOST);
}

/* What a communicator has lost. */
static void end_loss(dma_proc_t *proc, dma_lease_t *l, bool permanent)
{
    l->comm = NULL;
    if (!permanent) {
        l->state = DMA_LEASE_LATE;
        if (!l->copies) {
            (void)destroy(proc, l);
        }
    }
}

void dma_lease_leave(const dma_comm_t *comm, bool permanent)
{
    dma_proc_t *proc = comm->proc;

    pthread_mutex_lock(&proc->device_lock);
    for (dma_lease_t *l = proc->leases, *next; l; l = next) {
        next = l->next;
        if (l->state == DMA_LEASE_LOST && l->comm == comm) {
            end_loss(proc, l, permanent);
        } else if (l->state == DMA_LEASE_IDLE && l->kind == DMA_LEASE_SHARED &&
                   (!l->rt || l->arena == comm->file_arena)) {
            (void)destroy(proc, l);
        } else if (l->state == DMA_LEASE_LATE && l->kind == DMA_LEASE_SHARED && l->arena == comm->file_arena) {
            dma_arena_keep_mapped(l->arena); /* a copy may still access the block, which goes with the arena */
            l->block = NULL;
        }
    }
    pthread_mutex_unlock(&proc->device_lock);
}

/* At the end of the process: may it be freed? */
static bool is_free(const dma_lease_t *l)
{
    return l->state == DMA_LEASE_IDLE || (l->state == DMA_LEASE_LATE && l->streams && query_streams(l) != DMA_AGAIN);
}

void dma_leases_destroy(dma_proc_t *proc)
{
    dma_lease_t *next;

    for (dma_lease_t *l = proc->leases; l; l = next) {
        next = l->next;
        if (is_free(l)) {
            (void)destroy(proc, l);
        }
    }
    for (dma_lease_t *l = proc->leases; l; l = next) {
        next = l->next;
        free(l); /* its memory is left */
    }
    proc->leases = NULL;
}
