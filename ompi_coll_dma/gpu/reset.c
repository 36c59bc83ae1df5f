/* Detection of device resets: see reset.h. */
#include "gpu/reset.h"

/* With the lock. */
static void lose(dma_gpu_guard_t *guard, int device)
{
    guard->markers[device] = (dma_gpu_marker_t){0};
    atomic_store_explicit(&guard->lost[device], true, memory_order_relaxed);
}

/* With the lock. */
static void check(dma_gpu_guard_t *guard, int device)
{
    dma_gpu_marker_t *m = &guard->markers[device];
    uint64_t id = m->id;

    if (m->addr) {
        guard->ops->get_id(device, m->addr, &id);
    }
    if (id != m->id) {
        lose(guard, device);
    }
}

/* With the lock. */
static void make_marker(dma_gpu_guard_t *guard, int device)
{
    dma_gpu_marker_t made = {0};

    if (guard->ops->make(&made.addr) == DMA_OK) {
        guard->ops->get_id(device, made.addr, &made.id);
        if (made.id) {
            guard->markers[device] = made;
        } else {
            guard->ops->free(made.addr);
        }
    }
}

dma_status_t dma_gpu_guard_check(dma_gpu_guard_t *guard, int device)
{
    if (device < 0 || device >= DMA_GPU_MAX_DEVICES) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "device %d: only %d are supported", device, DMA_GPU_MAX_DEVICES);
    }
    return dma_gpu_guard_is_lost(guard, device) ? dma_gpu_fail(DMA_ERR_ENGINE, "device %d has been reset", device)
                                                : DMA_OK;
}

void dma_gpu_guard_detect(dma_gpu_guard_t *guard)
{
    pthread_mutex_lock(&guard->lock);
    for (int i = 0; i < DMA_GPU_MAX_DEVICES; i++) {
        check(guard, i);
    }
    pthread_mutex_unlock(&guard->lock);
}

dma_status_t dma_gpu_guard_lose(dma_gpu_guard_t *guard, int device)
{
    pthread_mutex_lock(&guard->lock);
    lose(guard, device);
    pthread_mutex_unlock(&guard->lock);
    return dma_gpu_guard_check(guard, device);
}

void dma_gpu_guard_watch(dma_gpu_guard_t *guard, int device)
{
    if (atomic_load_explicit(&guard->watched[device], memory_order_relaxed)) {
        return;
    }
    pthread_mutex_lock(&guard->lock);
    if (!guard->watched[device]) {
        make_marker(guard, device);
        guard->watched[device] = true;
    }
    pthread_mutex_unlock(&guard->lock);
}
