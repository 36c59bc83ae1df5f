/*
 * Detection of device resets by the application, for HIP and CUDA alike.
 *
 * A reset (hipDeviceReset, cudaDeviceReset) destroys streams, memory and more without notice. The runtimes identify an
 * object by its address only: a call with a destroyed one crashes, or acts on a new object of the application that has
 * the same address. So every device on which we have objects has a marker, a small allocation. The runtimes give each
 * allocation a unique id, so a changed id at the marker's address shows a reset. The markers are checked when memory of
 * the application is seen for the first time (after a reset all its device memory is new), when an object of ours is
 * created, and before one is released. Without a marker (the device is full) a reset is not detected, unless the
 * runtime tells by other means (dma_gpu_guard_lose).
 *
 *     an object's origin          { device, resets of the device when it was made }
 *     the guard's count           resets of the device now          another number: the object is lost
 *
 * A lost object is forgotten: it is not passed to the runtime any more, not even to be released.
 */
#ifndef DMA_GPU_RESET_H
#define DMA_GPU_RESET_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/internal.h"

typedef struct dma_gpu_marker {
    uint64_t addr, id; /* addr 0: no marker */
} dma_gpu_marker_t;

/* With the guard's lock. */
typedef struct dma_gpu_marker_ops {
    /* With the device current. false: there can be none. */
    bool (*make)(int device, dma_gpu_marker_t *marker);
    bool (*is_intact)(int device, const dma_gpu_marker_t *marker);
    /* With the device current. The marker was intact a moment ago. */
    void (*free)(int device, const dma_gpu_marker_t *marker);
} dma_gpu_marker_ops_t;

typedef struct dma_gpu_owned dma_gpu_owned_t;

/* One for each runtime. */
typedef struct dma_gpu_guard {
    const dma_gpu_marker_ops_t *ops;
    pthread_mutex_t lock; /* guards the markers and the list */
    dma_gpu_marker_t markers[DMA_GPU_MAX_DEVICES];
    atomic_uint resets[DMA_GPU_MAX_DEVICES];
    dma_gpu_owned_t *memory; /* that was allocated, imported or registered through the table */
} dma_gpu_guard_t;

#define DMA_GPU_GUARD(marker_ops)                                                                                      \
    {                                                                                                                  \
        .ops = (marker_ops), .lock = PTHREAD_MUTEX_INITIALIZER                                                         \
    }

/* How many resets of a device have been detected. */
static inline unsigned dma_gpu_guard_resets(dma_gpu_guard_t *guard, int device)
{
    /* acquire: a thread that sees the new count uses no object from before the reset */
    return device >= 0 && device < DMA_GPU_MAX_DEVICES
               ? atomic_load_explicit(&guard->resets[device], memory_order_acquire)
               : 0;
}

/* Checks for resets: one call of the runtime for each device that has a marker. */
void dma_gpu_guard_detect(dma_gpu_guard_t *guard);
/* The runtime has told of a reset. */
void dma_gpu_guard_lose(dma_gpu_guard_t *guard, int device);

typedef struct dma_gpu_origin {
    int device;
    unsigned resets;
} dma_gpu_origin_t;

/* The origin of an object that is about to be made on the current device. From now on resets of it are detected. */
dma_gpu_origin_t dma_gpu_guard_watch(dma_gpu_guard_t *guard, int device);
/* Ends the detection; with the device current. */
void dma_gpu_guard_unwatch(dma_gpu_guard_t *guard, int device);

static inline bool dma_gpu_guard_has_lost(dma_gpu_guard_t *guard, dma_gpu_origin_t origin)
{
    return origin.resets != dma_gpu_guard_resets(guard, origin.device);
}

/* What a call with a lost object returns. */
dma_status_t dma_gpu_guard_error(dma_gpu_origin_t origin);

/*
 * Memory is known by its address alone, which memory from before a reset may have had, too. Of two entries with one
 * address, the lost one counts as released first. So its owner never releases the new memory; the new memory may stay
 * allocated until the owner of the lost one has released that.
 */
/* Adds memory that has been made on the current device. */
dma_status_t dma_gpu_guard_add(dma_gpu_guard_t *guard, int device, uint64_t addr);
/* Must the memory be released in the runtime? Checks for resets. */
bool dma_gpu_guard_holds(dma_gpu_guard_t *guard, uint64_t addr);
/* The same, and forgets the memory. */
bool dma_gpu_guard_take(dma_gpu_guard_t *guard, uint64_t addr);

#endif
