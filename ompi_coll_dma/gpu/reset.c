/* Detection of device resets: see reset.h. */
#include "gpu/reset.h"

#include <stdlib.h>

struct dma_gpu_owned {
    dma_gpu_owned_t *next;
    uint64_t addr;
    dma_gpu_origin_t origin;
};

/* With the lock. */
static void lose(dma_gpu_guard_t *guard, int device)
{
    guard->markers[device].addr = 0;
    atomic_fetch_add_explicit(&guard->resets[device], 1, memory_order_release);
}

static void check(dma_gpu_guard_t *guard, int device)
{
    if (guard->markers[device].addr && !guard->ops->is_intact(device, &guard->markers[device])) {
        lose(guard, device);
    }
}

static void detect(dma_gpu_guard_t *guard)
{
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        check(guard, i);
    }
}

void dma_gpu_guard_detect(dma_gpu_guard_t *guard)
{
    pthread_mutex_lock(&guard->lock);
    detect(guard);
    pthread_mutex_unlock(&guard->lock);
}

void dma_gpu_guard_lose(dma_gpu_guard_t *guard, int device)
{
    pthread_mutex_lock(&guard->lock);
    lose(guard, device);
    pthread_mutex_unlock(&guard->lock);
}

/* With the lock and the device current. */
static dma_gpu_origin_t watch(dma_gpu_guard_t *guard, int device)
{
    dma_gpu_marker_t made;

    if (device >= 0 && device < DMA_GPU_MAX_DEVICES) {
        check(guard, device);
        if (!guard->markers[device].addr && guard->ops->make(device, &made)) {
            guard->markers[device] = made;
        }
    }
    return (dma_gpu_origin_t){.device = device, .resets = dma_gpu_guard_resets(guard, device)};
}

dma_gpu_origin_t dma_gpu_guard_watch(dma_gpu_guard_t *guard, int device)
{
    dma_gpu_origin_t origin;

    pthread_mutex_lock(&guard->lock);
    origin = watch(guard, device);
    pthread_mutex_unlock(&guard->lock);
    return origin;
}

void dma_gpu_guard_unwatch(dma_gpu_guard_t *guard, int device)
{
    pthread_mutex_lock(&guard->lock);
    check(guard, device);
    if (guard->markers[device].addr) {
        guard->ops->free(device, &guard->markers[device]);
        guard->markers[device].addr = 0;
    }
    pthread_mutex_unlock(&guard->lock);
}

dma_status_t dma_gpu_guard_error(dma_gpu_origin_t origin)
{
    return dma_gpu_fail(DMA_ERR_ENGINE, "device %d has been reset", origin.device);
}

/* ---- memory ---- */

dma_status_t dma_gpu_guard_add(dma_gpu_guard_t *guard, int device, uint64_t addr)
{
    dma_gpu_owned_t *o = malloc(sizeof(*o));

    if (!o) {
        return DMA_ERR_NOMEM;
    }
    pthread_mutex_lock(&guard->lock);
    *o = (dma_gpu_owned_t){.next = guard->memory, .addr = addr, .origin = watch(guard, device)};
    guard->memory = o;
    pthread_mutex_unlock(&guard->lock);
    return DMA_OK;
}

/* With the lock. The link to the entry that is to be released first; NULL: there is none. */
static dma_gpu_owned_t **find(dma_gpu_guard_t *guard, uint64_t addr)
{
    dma_gpu_owned_t **found = NULL;

    detect(guard);
    for (dma_gpu_owned_t **link = &guard->memory; *link; link = &(*link)->next) {
        if ((*link)->addr == addr && (!found || dma_gpu_guard_has_lost(guard, (*link)->origin))) {
            found = link;
        }
    }
    return found;
}

bool dma_gpu_guard_holds(dma_gpu_guard_t *guard, uint64_t addr)
{
    dma_gpu_owned_t **link;
    bool holds;

    pthread_mutex_lock(&guard->lock);
    link = find(guard, addr);
    holds = link && !dma_gpu_guard_has_lost(guard, (*link)->origin);
    pthread_mutex_unlock(&guard->lock);
    return holds;
}

bool dma_gpu_guard_take(dma_gpu_guard_t *guard, uint64_t addr)
{
    dma_gpu_owned_t **link, *o;
    bool held = false;

    pthread_mutex_lock(&guard->lock);
    if ((link = find(guard, addr))) {
        o = *link;
        *link = o->next;
        held = !dma_gpu_guard_has_lost(guard, o->origin);
        free(o);
    }
    pthread_mutex_unlock(&guard->lock);
    return held;
}
