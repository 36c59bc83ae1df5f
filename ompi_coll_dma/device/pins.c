/* Pinned host memory: see pins.h. Functions here have the device lock, unless pins.h declares them. */
#include "device/pins.h"

#include <string.h>
#include <sys/mman.h>

#include "device/slots.h"
#include "node/pause.h"

#define PAGE        UINT64_C(4096)
#define SLOTS_MOST  (UINT64_C(8) << 20) /* bytes of both slots; the processor copies half of it while the engine does */
#define SLOTS_LEAST (UINT64_C(256) << 10) /* smaller slots take longer to start than to copy */

static dma_pin_t *pin_of(dma_cached_t *block)
{
    return (dma_pin_t *)block;
}

/* ---- the kind of memory: see gpu/cache.h ---- */

static void destroy_objects(const dma_pin_t *p)
{
    const dma_gpu_runtime_t *rt = p->block.rt;

    for (int i = 0; i < 2; i++) {
        if (p->event[i]) {
            (void)rt->event_destroy(p->event[i]);
        }
    }
    if (p->stream) {
        (void)rt->stream_destroy(p->stream);
    }
}

static bool release(dma_cached_t *block)
{
    const dma_pin_t *p = pin_of(block);

    if (block->rt->host_unregister(p->memory) == DMA_AGAIN) {
        return false;
    }
    destroy_objects(p);
    return true;
}

/* Makes what copies need. After an error nothing is left. */
static dma_status_t make_objects(dma_pin_t *p)
{
    const dma_gpu_runtime_t *rt = p->block.rt;
    dma_status_t status;

    if ((status = rt->stream_create(&p->stream)) != DMA_OK) {
        p->stream = NULL;
    }
    for (int i = 0; status == DMA_OK && i < 2; i++) {
        if ((status = rt->event_create(&p->event[i])) != DMA_OK) {
            p->event[i] = NULL;
        }
    }
    if (status != DMA_OK) {
        destroy_objects(p);
    }
    return status;
}

static dma_status_t make(dma_cached_t *block)
{
    dma_pin_t *p = pin_of(block);
    dma_status_t status;
    uint64_t at;

    p->memory = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p->memory == MAP_FAILED) {
        return DMA_ERR_NOMEM;
    }
    if ((status = block->rt->host_register(p->memory, block->bytes, &at)) != DMA_OK) {
        munmap(p->memory, block->bytes);
    } else if ((status = make_objects(p)) != DMA_OK && block->rt->host_unregister(p->memory) != DMA_AGAIN) {
        munmap(p->memory, block->bytes);
    }
    return status;
}

static void unmap_memory(dma_cached_t *block)
{
    munmap(pin_of(block)->memory, block->bytes);
}

static dma_cache_t *cache_of(dma_proc_t *proc)
{
    static const dma_cache_kind_t kind = {.budget = DMA_BUDGET_PINNED,
                                          .size = sizeof(dma_pin_t),
                                          .make = make,
                                          .release = release,
                                          .discard = unmap_memory};

    return dma_cache_of(&proc->pins, &kind, &proc->budget);
}

/* ---- choosing ---- */

/* `bytes`: whole pages. */
static dma_cached_t *make_block(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    uint64_t most = dma_cache_allowance(cache);
    dma_cached_t *block;

    if (bytes > most) {
        return NULL;
    }
    bytes = dma_cache_size(bytes, most) / PAGE * PAGE;
    dma_cache_make_room(cache, rt, device, bytes);
    return dma_cache_make(cache, rt, device, bytes, &block) == DMA_OK ? block : NULL;
}

/* ---- for calls; without the lock ---- */

dma_pin_t *dma_pin_get(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_cache_t *cache;
    dma_cached_t *block;

    if (bytes > UINT64_MAX - PAGE) {
        return NULL;
    }
    bytes = (bytes + PAGE - 1) / PAGE * PAGE + (bytes ? 0 : PAGE);
    pthread_mutex_lock(&proc->device_lock);
    cache = cache_of(proc);
    dma_cache_drop_destroyed(cache, rt, device);
    block = dma_cache_find(cache, rt, device, bytes);
    if (!block && bytes > dma_cache_allowance(cache)) {
        dma_slots_make_room(proc, bytes);
    }
    block = block ? block : make_block(cache, rt, device, bytes);
    if (block) {
        dma_cache_borrow(cache, block);
    }
    pthread_mutex_unlock(&proc->device_lock);
    return block ? pin_of(block) : NULL;
}

dma_pin_t *dma_pin_get_slots(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    dma_pin_t *p = NULL;

    for (uint64_t bytes = SLOTS_MOST; !p && bytes >= SLOTS_LEAST; bytes /= 2) {
        p = dma_pin_get(proc, rt, device, bytes);
    }
    return p;
}

void dma_pin_put(dma_proc_t *proc, dma_pin_t *p)
{
    dma_gpu_scope_t scope;

    /* After an error. Query first: a stream that a reset of the device has destroyed must not be synchronized. */
    if (p->copies && p->block.rt->enter_to_release(p->block.device, &scope) == DMA_OK) {
        if (p->block.rt->stream_query(p->stream) == DMA_AGAIN) {
            (void)dma_pin_end(p);
        }
        p->copies = false;
        p->block.rt->leave(&scope);
    }
    pthread_mutex_lock(&proc->device_lock);
    p->block.busy = false;
    pthread_mutex_unlock(&proc->device_lock);
}

void dma_pins_make_room(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    if (dma_budget_left(&proc->budget, DMA_BUDGET_PINNED) < bytes) {
        dma_cache_make_room(cache_of(proc), rt, device, bytes);
    }
}

void dma_pins_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device)
{
    dma_cache_trim(cache_of(proc), rt, device);
}

void dma_pins_destroy(dma_proc_t *proc)
{
    dma_cache_destroy(cache_of(proc));
}

/* ---- copies ---- */

dma_status_t dma_pin_start(dma_pin_t *p, const void *to, const void *from, uint64_t bytes)
{
    p->copies = true;
    return p->block.rt->copy_async(p->stream, (uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from, bytes);
}

dma_status_t dma_pin_end(dma_pin_t *p)
{
    dma_status_t status = p->block.rt->stream_sync(p->stream);

    p->copies = status != DMA_OK;
    return status;
}

/* Starts the copy of a slot. */
static dma_status_t start_slot(dma_pin_t *p, unsigned slot, const void *to, const void *from, uint64_t bytes)
{
    dma_status_t status = dma_pin_start(p, to, from, bytes);

    return status == DMA_OK ? p->block.rt->event_record(p->event[slot], p->stream) : status;
}

static dma_status_t wait_slot(const dma_pin_t *p, unsigned slot)
{
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = p->block.rt->event_query(p->event[slot])) == DMA_AGAIN) {
        dma_pause(&pause);
    }
    return status;
}

static uint64_t slot_bytes(const dma_pin_t *p)
{
    uint64_t bytes = p->block.bytes < SLOTS_MOST ? p->block.bytes : SLOTS_MOST;

    return bytes / 2;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

dma_status_t dma_pin_read(dma_pin_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p), started = 0;
    dma_status_t status = DMA_OK;
    unsigned next = 0;

    for (uint64_t done = 0; status == DMA_OK && done < bytes;) {
        uint64_t n = least(bytes - done, slot);

        /* at most two pieces ahead: what is in the other slot has been copied out */
        while (status == DMA_OK && started < bytes && started < done + 2 * slot) {
            uint64_t more = least(bytes - started, slot);

            status = start_slot(p, next, p->memory + next * slot, from + started, more);
            started += more;
            next ^= 1;
        }
        if (status == DMA_OK && (status = wait_slot(p, (unsigned)(done / slot % 2))) == DMA_OK) {
            memcpy(to + done, p->memory + done / slot % 2 * slot, n);
        }
        done += n;
    }
    p->copies = status != DMA_OK;
    return status;
}

dma_status_t dma_pin_write(dma_pin_t *p, char *to, const char *from, uint64_t bytes)
{
    uint64_t slot = slot_bytes(p);
    dma_status_t status = DMA_OK, ended;

    for (uint64_t done = 0; status == DMA_OK && done < bytes; done += slot) {
        unsigned at = (unsigned)(done / slot % 2);
        char *memory = p->memory + at * slot;
        uint64_t n = least(bytes - done, slot);

        if (done >= 2 * slot) {
            status = wait_slot(p, at);
        }
        if (status == DMA_OK) {
            memcpy(memory, from + done, n);
            status = start_slot(p, at, to + done, memory, n);
        }
    }
    ended = dma_pin_end(p);
    return status == DMA_OK ? ended : status;
}
