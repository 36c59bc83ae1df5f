/*
 * How much memory beside the user's buffers a process holds for collectives in device memory, and how much it may hold.
 *
 *     DEVICE    scratch memory, memory of engines                  at most coll_dma_scratch_bytes
 *     PINNED    host memory that is registered with the runtime    at most coll_dma_pinned_bytes
 *               for copies
 *
 * Whoever allocates such memory takes its bytes first, and gives them back when it has freed the memory. Memory without which
 * an engine could do nothing is small and is never refused (dma_budget_force), so the sum can exceed the bound by that. Shared
 * memory of the window, which is registered too, has a bound of its own (coll_dma_arena_bytes) and is not counted here.
 *
 * Any thread may call. NULL stands for a budget without a bound that nobody reads.
 */
#ifndef DMA_GPU_BUDGET_H
#define DMA_GPU_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dma/counters.h"

typedef enum dma_budget_kind { DMA_BUDGET_DEVICE, DMA_BUDGET_PINNED, DMA_BUDGET_KINDS } dma_budget_kind_t;

typedef struct dma_budget {
    dma_counters_t *counters;
    uint64_t limit[DMA_BUDGET_KINDS];
    _Atomic uint64_t held[DMA_BUDGET_KINDS];
} dma_budget_t;

void dma_budget_init(dma_budget_t *budget, dma_counters_t *counters, uint64_t device, uint64_t pinned);
/* False: this would exceed the bound, and nothing is taken. */
bool dma_budget_take(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes);
void dma_budget_force(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes);
void dma_budget_give(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes);
/* What could be taken now. */
uint64_t dma_budget_left(const dma_budget_t *budget, dma_budget_kind_t kind);

#endif
