/* Comparing exports of one process: see ipc.h. */
#ifndef DMA_GPU_EXPORT_H
#define DMA_GPU_EXPORT_H

#include <stdbool.h>
#include <string.h>

#include "gpu/ipc.h"
#include "gpu/tied.h"

static inline bool dma_export_overlaps(const dma_export_t *a, const dma_export_t *b)
{
    return a->base < b->base + b->size && b->base < a->base + a->size;
}

/* Whether the two have memory in the same block. */
static inline bool dma_export_shares_block(const dma_export_t *a, const dma_export_t *b)
{
    return a->base / DMA_TIED_BLOCK_BYTES <= (b->base + b->size - 1) / DMA_TIED_BLOCK_BYTES &&
           b->base / DMA_TIED_BLOCK_BYTES <= (a->base + a->size - 1) / DMA_TIED_BLOCK_BYTES;
}

/* Whether they are one allocation. If the runtime does not identify allocations, the handle does. */
static inline bool dma_export_is_same(const dma_export_t *a, const dma_export_t *b)
{
    return a->base == b->base && a->size == b->size && a->buffer_id == b->buffer_id &&
           (a->buffer_id || !memcmp(&a->handle, &b->handle, sizeof(a->handle)));
}

/* Whether the two cannot be open at once: the owner must have freed the old one before it allocated the new one. */
static inline bool dma_export_conflicts(const dma_export_t *new, const dma_export_t *old)
{
    return !old->mapped && !new->mapped &&
           (dma_export_overlaps(old, new) || (dma_export_shares_block(old, new) && old->number < new->first));
}

#endif
