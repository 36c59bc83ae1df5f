/* Blocks of scratch memory: see pool.h. Functions here have the device lock, unless pool.h declares them. */
#include "device/pool.h"

#include <stdlib.h>

#define LEAST_ROOM (UINT64_C(1) << 20) /* below it a block is not made smaller because the device has no room */

static bool is_of(const dma_scratch_t *s, const dma_gpu_runtime_t *rt, int device)
{
    return s->rt == rt && s->device == device;
}

static bool is_idle(const dma_scratch_t *s)
{
    return !s->user && !s->lost;
}

/* ---- making and freeing ---- */

/* In scope. */
static void destroy_objects(const dma_scratch_t *s)
{
    if (s->event) {
        (void)s->rt->event_destroy(s->event);
    }
    if (s->stream) {
        (void)s->rt->stream_destroy(s->stream);
    }
    if (s->addr) {
        (void)s->rt->free(s->addr);
    }
}

static void free_block(dma_proc_t *proc, dma_scratch_t **link)
{
    dma_scratch_t *s = *link;
    dma_gpu_scope_t scope;

    *link = s->next;
    /* If the scope cannot be entered, the application has shut the runtime down, which has freed all memory. */
    if (s->rt->enter_to_release(s->device, &scope) == DMA_OK) {
        destroy_objects(s);
        s->rt->leave(&scope);
    }
    dma_budget_give(&proc->budget, DMA_BUDGET_DEVICE, s->bytes);
    free(s);
}

/* Frees the idle blocks of a device. */
static void free_idle_of(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    for (dma_scratch_t **link = &proc->scratch; *link;) {
        if (is_idle(*link) && is_of(*link, rt, device)) {
            free_block(proc, link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* Frees the idle block that has not been used for longest. False: there is none. */
static bool free_oldest(dma_proc_t *proc)
{
    dma_scratch_t **oldest = NULL;

    for (dma_scratch_t **link = &proc->scratch; *link; link = &(*link)->next) {
        if (is_idle(*link) && (!oldest || (*link)->used < (*oldest)->used)) {
            oldest = link;
        }
    }
    if (oldest) {
        free_block(proc, oldest);
    }
    return oldest != NULL;
}

/* In scope: the memory, and what copies need. Peers must be able to open it. */
static dma_status_t create_objects(dma_scratch_t *s)
{
    dma_status_t status = s->rt->alloc(s->bytes, &s->addr);

    if (status != DMA_OK) {
        s->addr = 0;
        return status;
    }
    dma_gpu_classify(s->rt, s->addr, s->bytes, &s->memory);
    if (!s->memory.exportable) {
        return DMA_UNSUPPORTED;
    }
    if ((status = s->rt->stream_create(&s->stream)) != DMA_OK) {
        s->stream = NULL;
        return status;
    }
    if ((status = s->rt->event_create(&s->event)) != DMA_OK) {
        s->event = NULL;
    }
    return status;
}

static dma_status_t create_block(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                                 dma_scratch_t **result)
{
    dma_scratch_t *s;
    dma_gpu_scope_t scope;
    dma_status_t status;

    if (!dma_budget_take(&proc->budget, DMA_BUDGET_DEVICE, bytes)) {
        return DMA_ERR_NOMEM;
    }
    if (!(s = calloc(1, sizeof(*s)))) {
        dma_budget_give(&proc->budget, DMA_BUDGET_DEVICE, bytes);
        return DMA_ERR_NOMEM;
    }
    s->rt = rt;
    s->device = device;
    s->bytes = bytes;
    s->resets = dma_gpu_resets(rt, device);
    if ((status = rt->enter(device, &scope)) == DMA_OK) {
        status = create_objects(s);
        if (status != DMA_OK) {
            destroy_objects(s);
        }
        rt->leave(&scope);
    }
    if (status != DMA_OK) {
        dma_budget_give(&proc->budget, DMA_BUDGET_DEVICE, bytes);
        free(s);
        return status;
    }
    s->next = proc->scratch;
    *result = proc->scratch = s;
    return DMA_OK;
}

/* ---- choosing ---- */

/* A reset of the device has destroyed memory and stream. */
static void drop_destroyed(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    unsigned resets = dma_gpu_resets(rt, device);

    for (dma_scratch_t **link = &proc->scratch; *link;) {
        if (is_idle(*link) && is_of(*link, rt, device) && (*link)->resets != resets) {
            free_block(proc, link);
        } else {
            link = &(*link)->next;
        }
    }
}

/* The smallest idle block of at least `bytes` bytes, else NULL. */
static dma_scratch_t *find_idle(const dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_scratch_t *best = NULL;

    for (dma_scratch_t *s = proc->scratch; s; s = s->next) {
        if (is_idle(s) && is_of(s, rt, device) && s->bytes >= bytes && (!best || s->bytes < best->bytes)) {
            best = s;
        }
    }
    return best;
}

/* What calls could have if no block were idle. */
static uint64_t allowance(const dma_proc_t *proc)
{
    uint64_t left = dma_budget_left(&proc->budget, DMA_BUDGET_DEVICE);

    for (const dma_scratch_t *s = proc->scratch; s; s = s->next) {
        left += is_idle(s) ? s->bytes : 0;
    }
    return left;
}

/* Makes a new block, smaller than `bytes` if the device has no room, but not below `least`. */
static dma_status_t make_room(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes, uint64_t least,
                              dma_scratch_t **result)
{
    dma_status_t status;

    free_idle_of(proc, rt, device);
    while (dma_budget_left(&proc->budget, DMA_BUDGET_DEVICE) < bytes && free_oldest(proc)) {
    }
    least = least < LEAST_ROOM ? LEAST_ROOM : least;
    while ((status = create_block(proc, rt, device, bytes, result)) == DMA_ERR_NOMEM && bytes / 2 >= least) {
        bytes /= 2;
    }
    return status;
}

static dma_status_t find_block(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t want, uint64_t least,
                               dma_scratch_t **result)
{
    uint64_t most, bytes;

    drop_destroyed(proc, rt, device);
    if ((*result = find_idle(proc, rt, device, want))) {
        return DMA_OK;
    }
    most = allowance(proc);
    if (want <= most) {
        bytes = want <= most / 2 ? want + want / 2 : want;
        return make_room(proc, rt, device, bytes, least, result);
    }
    bytes = most / 2 > least ? most / 2 : least;
    if (bytes > most) {
        return DMA_ERR_NOMEM;
    }
    if ((*result = find_idle(proc, rt, device, bytes))) {
        return DMA_OK;
    }
    return make_room(proc, rt, device, bytes, least, result);
}

/* ---- for calls; without the lock ---- */

dma_status_t dma_scratch_get(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t want,
                             uint64_t least, dma_scratch_t **scratch)
{
    dma_proc_t *proc = comm->proc;
    dma_scratch_t *s = NULL;
    dma_status_t status;

    pthread_mutex_lock(&proc->device_lock);
    status = find_block(proc, rt, device, want, least < want ? least : want, &s);
    if (status == DMA_OK) {
        s->user = comm;
        s->used = ++proc->scratch_uses;
        *scratch = s;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return status;
}

/* Query first: a stream that a reset of the device has destroyed must not be synchronized. */
void dma_scratch_wait(const dma_scratch_t *s)
{
    dma_gpu_scope_t scope;

    if (s->rt->enter_to_release(s->device, &scope) == DMA_OK) {
        if (s->rt->stream_query(s->stream) == DMA_AGAIN) {
            (void)s->rt->stream_sync(s->stream);
        }
        s->rt->leave(&scope);
    }
}

void dma_scratch_put(dma_proc_t *proc, dma_scratch_t *s, bool lost)
{
    pthread_mutex_lock(&proc->device_lock);
    s->lost = lost;
    s->user = lost ? s->user : NULL;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_scratch_leave(const dma_comm_t *comm, bool permanent)
{
    dma_proc_t *proc = comm->proc;

    pthread_mutex_lock(&proc->device_lock);
    for (dma_scratch_t **link = &proc->scratch; *link;) {
        dma_scratch_t *s = *link;

        if (s->lost && s->user == comm && permanent) {
            s->user = NULL;
        }
        if (s->lost && s->user == comm) {
            free_block(proc, link);
        } else {
            link = &s->next;
        }
    }
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_scratch_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    free_idle_of(proc, rt, device);
}

/* What a queue may still use is left to the end of the process. */
void dma_scratch_destroy(dma_proc_t *proc)
{
    dma_scratch_t *next;

    while (free_oldest(proc)) {
    }
    for (dma_scratch_t *s = proc->scratch; s; s = next) {
        next = s->next;
        free(s);
    }
    proc->scratch = NULL;
}
