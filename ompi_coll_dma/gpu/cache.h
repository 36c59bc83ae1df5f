/*
 * Memory of a runtime that a process keeps for its calls: a list of blocks, which calls borrow.
 *
 * Making such memory takes longer than most calls, so a block that no call has stays until its bytes are needed. There is a
 * cache for each kind of memory: device memory (device/pool.h) and pinned host memory (device/pins.h). The kind says how the
 * memory is made and freed. Which block a call gets, and how large a new one is, is decided by the user of the cache.
 *
 * - The bytes of all blocks are taken from the budget before they are made, and given back when they have been freed.
 * - A busy block is never chosen, and is freed by dma_cache_free alone. All other blocks are idle.
 * - An idle block gives way to a larger one: first those of the same device, then those that have not been used for longest.
 * - A block is freed in a scope that makes no context. Where there is none, the application has shut the runtime down, which
 *   has released what it had given.
 * - A block that a reset of its device has destroyed is not found again: dma_cache_drop_destroyed comes before dma_cache_find.
 * - A block that the runtime does not release while a stream waits stays as it is.
 *
 * When a block cannot be made, nothing is left of it, and the other blocks are as they were.
 *
 * All functions are called with the lock of the cache's owner.
 */
#ifndef DMA_GPU_CACHE_H
#define DMA_GPU_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"
#include "gpu/budget.h"

struct dma_gpu_runtime;

/* What all kinds of blocks begin with. */
typedef struct dma_cached {
    struct dma_cached *next;
    const struct dma_gpu_runtime *rt;
    int device;
    unsigned resets; /* of the device when the block was made */
    uint64_t bytes;
    bool busy;     /* a call has it, or it cannot be used again */
    uint64_t used; /* a greater number: borrowed later */
} dma_cached_t;

/* A kind of memory. */
typedef struct dma_cache_kind {
    dma_budget_kind_t budget;
    size_t size; /* of a block's structure, which begins with dma_cached_t */
    /* Makes the memory, and what copies need. In the runtime's scope of the device. After an error nothing is left. */
    dma_status_t (*make)(dma_cached_t *block);
    /* Releases what the runtime has given. In the scope of enter_to_release. False: not now, so nothing has been released. */
    bool (*release)(dma_cached_t *block);
    /* [may be NULL] Frees what is not the runtime's. Out of scope, after `release`. */
    void (*discard)(dma_cached_t *block);
} dma_cache_kind_t;

typedef struct dma_cache {
    const dma_cache_kind_t *kind;
    dma_budget_t *budget;
    dma_cached_t *blocks;
    uint64_t uses; /* of its blocks so far: orders them */
} dma_cache_t;

/* The cache at `cache`, which is empty if it was zero, with its kind and budget: the same in each call. */
dma_cache_t *dma_cache_of(dma_cache_t *cache, const dma_cache_kind_t *kind, dma_budget_t *budget);

/* The smallest idle block of at least `bytes` bytes, else NULL. */
dma_cached_t *dma_cache_find(const dma_cache_t *cache, const struct dma_gpu_runtime *rt, int device, uint64_t bytes);
/* What calls could have if no block were idle. */
uint64_t dma_cache_allowance(const dma_cache_t *cache);
/* The size of a new block for `bytes` bytes out of `most`: half as large again, if that leaves as much to others. */
uint64_t dma_cache_size(uint64_t bytes, uint64_t most);
/* Frees idle blocks, all of the device among them, until the budget has room for `bytes` bytes or no block can be freed. */
void dma_cache_make_room(dma_cache_t *cache, const struct dma_gpu_runtime *rt, int device, uint64_t bytes);
/* Makes an idle block. DMA_ERR_NOMEM: the budget or the device has no room. */
dma_status_t dma_cache_make(dma_cache_t *cache, const struct dma_gpu_runtime *rt, int device, uint64_t bytes,
                            dma_cached_t **block);
/* A call gets the block. */
void dma_cache_borrow(dma_cache_t *cache, dma_cached_t *block);

/* Frees a block, which may be busy. False: the block stays. */
bool dma_cache_free(dma_cache_t *cache, dma_cached_t *block);
/* Frees the idle blocks of a device that a reset has destroyed. */
void dma_cache_drop_destroyed(dma_cache_t *cache, const struct dma_gpu_runtime *rt, int device);
/* Frees all idle blocks of a device. */
void dma_cache_trim(dma_cache_t *cache, const struct dma_gpu_runtime *rt, int device);
/* The process ends: frees all idle blocks, if it can. The memory of the others is left to the end of the process. */
void dma_cache_destroy(dma_cache_t *cache);

#endif
