/*
 * Detection of device resets by the application, for HIP and CUDA alike.
 *
 * A reset (hipDeviceReset, cudaDeviceReset) destroys streams, memory and more without notice. The runtimes identify an
 * object by its address only: a call with a destroyed one crashes, or acts on a new object of the application that has
 * the same address. So every device that we have entered has a marker, a small allocation. The runtimes give each
 * allocation a unique id, so a changed id at the marker's address shows a reset. The markers are checked when memory of
 * the application is seen for the first time (after a reset all its device memory is new), and before an object of ours is
 * released. Without a marker (the device is full) a reset is not detected, unless the runtime tells by other means
 * (dma_gpu_guard_lose).
 *
 * A device that was reset is lost for as long as the process lives. No scope of it can be entered any more, not even one to
 * release objects: what was there is forgotten.
 */
#ifndef DMA_GPU_RESET_H
#define DMA_GPU_RESET_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/internal.h"

typedef struct dma_gpu_marker {
    uint64_t addr, id; /* addr 0: no marker */
} dma_gpu_marker_t;

#define DMA_GPU_MARKER_BYTES 64 /* never accessed; any small size does */

/* With the guard's lock. `make` and `free`: with the device current. */
typedef struct dma_gpu_marker_ops {
    dma_status_t (*make)(uint64_t *addr);
    /* *id: 0 if the address has no memory any more; unchanged if the runtime does not tell. */
    void (*get_id)(int device, uint64_t addr, uint64_t *id);
    void (*free)(uint64_t addr);
} dma_gpu_marker_ops_t;

/* One for each runtime. */
typedef struct dma_gpu_guard {
    const dma_gpu_marker_ops_t *ops;
    pthread_mutex_t lock; /* guards the markers */
    dma_gpu_marker_t markers[DMA_GPU_MAX_DEVICES];
    atomic_bool watched[DMA_GPU_MAX_DEVICES]; /* it has a marker, or can have none */
    atomic_bool lost[DMA_GPU_MAX_DEVICES];
} dma_gpu_guard_t;

#define DMA_GPU_GUARD(marker_ops)                                                                                      \
    {                                                                                                                  \
        .ops = (marker_ops), .lock = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

static inline bool dma_gpu_guard_is_lost(dma_gpu_guard_t *guard, int device)
{
    return device >= 0 && device < DMA_GPU_MAX_DEVICES &&
           atomic_load_explicit(&guard->lost[device], memory_order_relaxed);
}

/* DMA_OK, or, for a lost device, an error with its text. */
dma_status_t dma_gpu_guard_check(dma_gpu_guard_t *guard, int device);
/* Checks for resets: one call of the runtime for each device that has a marker. */
void dma_gpu_guard_detect(dma_gpu_guard_t *guard);
/* The runtime has told of a reset. Returns the error. */
dma_status_t dma_gpu_guard_lose(dma_gpu_guard_t *guard, int device);
/* The device has become current. From the first time on resets of it are detected. */
void dma_gpu_guard_watch(dma_gpu_guard_t *guard, int device);

#endif
