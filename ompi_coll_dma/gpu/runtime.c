/*
 * Detection of the GPU runtime that the application has loaded.
 *
 * dl_iterate_phdr reports how many libraries were ever loaded. While that number stays the same, no runtime can have
 * appeared, and an ordinary call checks nothing else. Once a runtime is found, it stays loaded and is not searched
 * again.
 *
 * A process may have both runtimes loaded, because some library links to both. Then the runtime that has devices is
 * chosen. Until one of them has devices, no runtime is chosen and every call checks again.
 */
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gpu/internal.h"

static struct {
    _Atomic(const dma_gpu_runtime_t *) chosen; /* written once */
    atomic_ullong seen_adds;                   /* dlpi_adds at the last search without a result; 0: never searched */
    pthread_mutex_t lock;                      /* guards the members below */
    const dma_gpu_runtime_t *hip, *cuda;
} runtimes = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int first_object(struct dl_phdr_info *info, size_t size, void *adds)
{
    (void)size;
    *(unsigned long long *)adds = info->dlpi_adds;
    return 1;
}

static bool has_devices(const dma_gpu_runtime_t *rt)
{
    int count;

    return rt && rt->device_count(&count) == DMA_OK && count > 0;
}

/* With the lock. */
static const dma_gpu_runtime_t *choose(void)
{
    if (!runtimes.hip || !runtimes.cuda) {
        return runtimes.hip ? runtimes.hip : runtimes.cuda;
    }
    if (has_devices(runtimes.cuda)) {
        return runtimes.cuda;
    }
    return has_devices(runtimes.hip) ? runtimes.hip : NULL;
}

const dma_gpu_runtime_t *dma_gpu_runtime_loaded(void)
{
    const dma_gpu_runtime_t *rt = atomic_load_explicit(&runtimes.chosen, memory_order_acquire);
    unsigned long long adds = 0;

    if (rt) {
        return rt;
    }
    dl_iterate_phdr(first_object, &adds);
    if (adds == atomic_load_explicit(&runtimes.seen_adds, memory_order_acquire)) {
        return NULL;
    }
    pthread_mutex_lock(&runtimes.lock);
    if (dma_gpu_may_be_loaded()) {
        runtimes.hip = runtimes.hip ? runtimes.hip : dma_gpu_hip_open();
        runtimes.cuda = runtimes.cuda ? runtimes.cuda : dma_gpu_cuda_open();
    }
    rt = choose();
    if (rt) {
        atomic_store_explicit(&runtimes.chosen, rt, memory_order_release);
    } else if (!runtimes.hip && !runtimes.cuda) {
        atomic_store_explicit(&runtimes.seen_adds, adds, memory_order_release);
    }
    pthread_mutex_unlock(&runtimes.lock);
    return rt;
}
