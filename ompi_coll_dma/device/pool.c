/* Blocks of scratch memory: see pool.h. Functions here have the device lock, unless pool.h declares them. */
#include "device/pool.h"

#define LEAST_ROOM (UINT64_C(1) << 20) /* below it a block is not made smaller because the device has no room */
/* CUDA puts memory of other sizes on smaller pages: peers then write 64 MiB and more at three quarters of the speed. */
#define PAGE (UINT64_C(2) << 20)

static dma_scratch_t *scratch_of(dma_cached_t *block)
{
    return (dma_scratch_t *)block;
}

/* ---- the kind of memory: see gpu/cache.h ---- */

static bool release(dma_cached_t *block)
{
    const dma_scratch_t *s = scratch_of(block);

    for (int i = 0; i < 2; i++) {
        if (s->event[i]) {
            (void)block->rt->event_destroy(s->event[i]);
        }
        if (s->stream[i]) {
            (void)block->rt->stream_destroy(s->stream[i]);
        }
    }
    if (s->addr) {
        (void)block->rt->free(s->addr);
    }
    return true;
}

/* The memory, and what copies need. Peers must be able to open it. */
static dma_status_t make_objects(dma_scratch_t *s)
{
    const dma_gpu_runtime_t *rt = s->block.rt;
    dma_status_t status = rt->alloc(s->block.bytes, &s->addr);

    if (status != DMA_OK) {
        s->addr = 0;
        return status;
    }
    dma_gpu_classify(rt, s->addr, s->block.bytes, &s->memory);
    if (!s->memory.exportable) {
        return DMA_UNSUPPORTED;
    }
    for (int i = 0; i < 2 && status == DMA_OK; i++) {
        if ((status = rt->stream_create(&s->stream[i])) != DMA_OK) {
            s->stream[i] = NULL;
        } else if ((status = rt->event_create(&s->event[i])) != DMA_OK) {
            s->event[i] = NULL;
        }
    }
    return status;
}

static dma_status_t make(dma_cached_t *block)
{
    dma_status_t status = make_objects(scratch_of(block));

    if (status != DMA_OK) {
        (void)release(block);
    }
    return status;
}

static dma_cache_t *cache_of(dma_proc_t *proc)
{
    static const dma_cache_kind_t kind = {
        .budget = DMA_BUDGET_DEVICE, .size = sizeof(dma_scratch_t), .make = make, .release = release};

    return dma_cache_of(&proc->scratch, &kind, &proc->budget);
}

/* ---- choosing ---- */

/* Makes a new block, smaller than `bytes` if the device has no room, but not below `least`. */
static dma_status_t make_block(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                               uint64_t least, dma_cached_t **block)
{
    dma_status_t status;

    dma_cache_make_room(cache, rt, device, bytes);
    least = least < LEAST_ROOM ? LEAST_ROOM : least;
    while ((status = dma_cache_make(cache, rt, device, bytes, block)) == DMA_ERR_NOMEM && bytes / 2 >= least) {
        bytes /= 2;
    }
    return status;
}

/* Of a new block for `want` bytes. */
static uint64_t size_for(uint64_t want, uint64_t most)
{
    uint64_t bytes = dma_cache_size(want, most), pages = (bytes + PAGE - 1) / PAGE * PAGE;

    return bytes < PAGE || pages > most ? bytes : pages;
}

static dma_status_t find_block(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t want,
                               uint64_t least, dma_cached_t **block)
{
    uint64_t most, bytes;

    dma_cache_drop_destroyed(cache, rt, device);
    if ((*block = dma_cache_find(cache, rt, device, want))) {
        return DMA_OK;
    }
    most = dma_cache_allowance(cache);
    if (want <= most) {
        return make_block(cache, rt, device, size_for(want, most), least, block);
    }
    bytes = most / 2 > least ? most / 2 : least;
    if (bytes > most) {
        return DMA_ERR_NOMEM;
    }
    if ((*block = dma_cache_find(cache, rt, device, bytes))) {
        return DMA_OK;
    }
    return make_block(cache, rt, device, bytes, least, block);
}

/* ---- for calls; without the lock ---- */

dma_status_t dma_scratch_get(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t want,
                             uint64_t least, dma_scratch_t **scratch)
{
    dma_proc_t *proc = comm->proc;
    dma_cache_t *cache;
    dma_cached_t *block;
    dma_status_t status;

    pthread_mutex_lock(&proc->device_lock);
    cache = cache_of(proc);
    status = find_block(cache, rt, device, want, least < want ? least : want, &block);
    if (status == DMA_OK) {
        dma_cache_borrow(cache, block);
        *scratch = scratch_of(block);
        (*scratch)->user = comm;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return status;
}

/* An idle block that is larger by so much is left to calls. */
#define LASTING_MORE 4

static dma_status_t find_lasting(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                                 dma_cached_t **block)
{
    dma_cache_drop_destroyed(cache, rt, device);
    *block = dma_cache_find(cache, rt, device, bytes);
    if (*block && (*block)->bytes <= LASTING_MORE * bytes) {
        return DMA_OK;
    }
    return bytes <= dma_cache_allowance(cache) ? make_block(cache, rt, device, bytes, bytes, block) : DMA_ERR_NOMEM;
}

dma_status_t dma_scratch_get_lasting(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                                     dma_scratch_t **scratch)
{
    dma_proc_t *proc = comm->proc;
    dma_cached_t *block;
    dma_status_t status;

    pthread_mutex_lock(&proc->device_lock);
    status = find_lasting(cache_of(proc), rt, device, bytes, &block);
    if (status == DMA_OK) {
        dma_cache_borrow(cache_of(proc), block);
        *scratch = scratch_of(block);
        (*scratch)->user = comm;
    }
    pthread_mutex_unlock(&proc->device_lock);
    return status;
}

void dma_scratch_keep(dma_proc_t *proc, dma_scratch_t *s)
{
    pthread_mutex_lock(&proc->device_lock);
    s->lost = true;
    s->user = NULL;
    pthread_mutex_unlock(&proc->device_lock);
}

/* Query first: a stream that a reset of the device has destroyed must not be synchronized. */
void dma_scratch_wait(const dma_scratch_t *s)
{
    const dma_gpu_runtime_t *rt = s->block.rt;
    dma_gpu_scope_t scope;

    if (rt->enter_to_release(s->block.device, &scope) == DMA_OK) {
        for (int i = 0; i < 2; i++) {
            if (rt->stream_query(s->stream[i]) == DMA_AGAIN) {
                (void)rt->stream_sync(s->stream[i]);
            }
        }
        rt->leave(&scope);
    }
}

void dma_scratch_put(dma_proc_t *proc, dma_scratch_t *s, bool lost)
{
    pthread_mutex_lock(&proc->device_lock);
    s->lost = lost;
    s->user = lost ? s->user : NULL;
    s->block.busy = lost;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_scratch_leave(const dma_comm_t *comm, bool permanent)
{
    dma_proc_t *proc = comm->proc;
    dma_cache_t *cache;

    pthread_mutex_lock(&proc->device_lock);
    cache = cache_of(proc);
    for (dma_cached_t *block = cache->blocks, *next; block; block = next) {
        dma_scratch_t *s = scratch_of(block);

        next = block->next;
        if (s->lost && s->user == comm && permanent) {
            s->user = NULL;
        } else if (s->lost && s->user == comm) {
            (void)dma_cache_free(cache, block);
        }
    }
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_scratch_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    dma_cache_trim(cache_of(proc), rt, device);
}

/* What a queue may still use is left to the end of the process. */
void dma_scratch_destroy(dma_proc_t *proc)
{
    dma_cache_destroy(cache_of(proc));
}
