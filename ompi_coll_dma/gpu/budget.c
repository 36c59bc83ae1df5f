/* The budget of a process for memory beside the user's buffers: see budget.h. */
#include "gpu/budget.h"

/* The counters of a kind. */
static const struct {
    int held, most;
} counted[] = {
    [DMA_BUDGET_DEVICE] = {DMA_COUNT_scratch_held, DMA_COUNT_scratch_most},
    [DMA_BUDGET_PINNED] = {DMA_COUNT_pinned_held, DMA_COUNT_pinned_most},
};

void dma_budget_init(dma_budget_t *budget, dma_counters_t *counters, uint64_t device, uint64_t pinned)
{
    budget->counters = counters;
    budget->limit[DMA_BUDGET_DEVICE] = device;
    budget->limit[DMA_BUDGET_PINNED] = pinned;
    for (int i = 0; i < DMA_BUDGET_KINDS; i++) {
        atomic_init(&budget->held[i], 0);
    }
}

static void note_taken(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes, uint64_t held)
{
    _Atomic uint64_t *most = &budget->counters->at[counted[kind].most];
    uint64_t seen = atomic_load_explicit(most, memory_order_relaxed);

    dma_counters_add(budget->counters, counted[kind].held, bytes);
    while (seen < held &&
           !atomic_compare_exchange_weak_explicit(most, &seen, held, memory_order_relaxed, memory_order_relaxed)) {
    }
}

bool dma_budget_take(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes)
{
    uint64_t held;

    if (!budget) {
        return true;
    }
    held = atomic_load_explicit(&budget->held[kind], memory_order_relaxed);
    do {
        if (held > budget->limit[kind] || bytes > budget->limit[kind] - held) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&budget->held[kind], &held, held + bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    note_taken(budget, kind, bytes, held + bytes);
    return true;
}

void dma_budget_force(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes)
{
    if (budget) {
        uint64_t held = atomic_fetch_add_explicit(&budget->held[kind], bytes, memory_order_relaxed);

        note_taken(budget, kind, bytes, held + bytes);
    }
}

void dma_budget_give(dma_budget_t *budget, dma_budget_kind_t kind, uint64_t bytes)
{
    if (budget) {
        atomic_fetch_sub_explicit(&budget->held[kind], bytes, memory_order_relaxed);
        dma_counters_add(budget->counters, counted[kind].held, -bytes);
    }
}

uint64_t dma_budget_left(const dma_budget_t *budget, dma_budget_kind_t kind)
{
    uint64_t held = budget ? atomic_load_explicit(&budget->held[kind], memory_order_relaxed) : 0;

    return !budget ? UINT64_MAX : held < budget->limit[kind] ? budget->limit[kind] - held : 0;
}
