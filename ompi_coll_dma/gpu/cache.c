/* Memory of a runtime that is kept for calls: see cache.h. */
#include "gpu/cache.h"

#include <stdlib.h>

#include "gpu/runtime.h"

dma_cache_t *dma_cache_of(dma_cache_t *cache, const dma_cache_kind_t *kind, dma_budget_t *budget)
{
    cache->kind = kind;
    cache->budget = budget;
    return cache;
}

/* ---- making and freeing ---- */

dma_status_t dma_cache_make(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                            dma_cached_t **block)
{
    const dma_cache_kind_t *kind = cache->kind;
    dma_cached_t *b;
    dma_gpu_scope_t scope;
    dma_status_t status = DMA_ERR_NOMEM;

    if (!dma_budget_take(cache->budget, kind->budget, bytes)) {
        return DMA_ERR_NOMEM;
    }
    if ((b = calloc(1, kind->size))) {
        *b = (dma_cached_t){.rt = rt, .device = device, .bytes = bytes, .resets = dma_gpu_resets(rt, device)};
        if ((status = rt->enter(device, &scope)) == DMA_OK) {
            status = kind->make(b);
            rt->leave(&scope);
        }
    }
    if (status != DMA_OK) {
        dma_budget_give(cache->budget, kind->budget, bytes);
        free(b);
        return status;
    }
    b->next = cache->blocks;
    *block = cache->blocks = b;
    return DMA_OK;
}

bool dma_cache_free(dma_cache_t *cache, dma_cached_t *block)
{
    dma_cached_t **link = &cache->blocks;
    dma_gpu_scope_t scope;
    bool released = true;

    if (block->rt->enter_to_release(block->device, &scope) == DMA_OK) {
        released = cache->kind->release(block);
        block->rt->leave(&scope);
    }
    if (!released) {
        return false;
    }
    while (*link != block) {
        link = &(*link)->next;
    }
    *link = block->next;
    if (cache->kind->discard) {
        cache->kind->discard(block);
    }
    dma_budget_give(cache->budget, cache->kind->budget, block->bytes);
    free(block);
    return true;
}

/* Frees idle blocks of a device: all, or those that a reset has destroyed. */
static void free_idle_of(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, bool all)
{
    unsigned resets = dma_gpu_resets(rt, device);

    for (dma_cached_t *b = cache->blocks, *next; b; b = next) {
        next = b->next;
        if (!b->busy && b->rt == rt && b->device == device && (all || b->resets != resets)) {
            (void)dma_cache_free(cache, b);
        }
    }
}

void dma_cache_drop_destroyed(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device)
{
    free_idle_of(cache, rt, device, false);
}

void dma_cache_trim(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device)
{
    free_idle_of(cache, rt, device, true);
}

/* Frees the idle block that has not been used for longest. False: there is none, or it stays. */
static bool free_oldest(dma_cache_t *cache)
{
    dma_cached_t *oldest = NULL;

    for (dma_cached_t *b = cache->blocks; b; b = b->next) {
        if (!b->busy && (!oldest || b->used < oldest->used)) {
            oldest = b;
        }
    }
    return oldest && dma_cache_free(cache, oldest);
}

void dma_cache_destroy(dma_cache_t *cache)
{
    dma_cached_t *next;

    while (free_oldest(cache)) {
    }
    for (dma_cached_t *b = cache->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    cache->blocks = NULL;
}

/* ---- choosing ---- */

dma_cached_t *dma_cache_find(const dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_cached_t *best = NULL;

    for (dma_cached_t *b = cache->blocks; b; b = b->next) {
        if (!b->busy && b->rt == rt && b->device == device && b->bytes >= bytes && (!best || b->bytes < best->bytes)) {
            best = b;
        }
    }
    return best;
}

uint64_t dma_cache_allowance(const dma_cache_t *cache)
{
    uint64_t left = dma_budget_left(cache->budget, cache->kind->budget);

    for (const dma_cached_t *b = cache->blocks; b; b = b->next) {
        left += b->busy ? 0 : b->bytes;
    }
    return left;
}

uint64_t dma_cache_size(uint64_t bytes, uint64_t most)
{
    return bytes <= most / 2 ? bytes + bytes / 2 : bytes;
}

void dma_cache_make_room(dma_cache_t *cache, const dma_gpu_runtime_t *rt, int device, uint64_t bytes)
{
    dma_cache_trim(cache, rt, device);
    while (dma_budget_left(cache->budget, cache->kind->budget) < bytes && free_oldest(cache)) {
    }
}

void dma_cache_borrow(dma_cache_t *cache, dma_cached_t *block)
{
    block->busy = true;
    block->used = ++cache->uses;
}
