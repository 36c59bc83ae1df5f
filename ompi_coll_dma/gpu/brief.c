/* Allocations that do not live long: see brief.h. */
#include "gpu/brief.h"

void dma_brief_freed(dma_brief_t *brief, unsigned calls)
{
    unsigned lost = atomic_load_explicit(&brief->lost, memory_order_relaxed); /* with the lock */

    atomic_store_explicit(&brief->lost, calls < DMA_BRIEF_CALLS ? lost + (lost < DMA_BRIEF_LOST) : 0,
                          memory_order_relaxed);
}

/* Its place in the list, or DMA_BRIEF_SEEN. */
static unsigned find_seen(const dma_brief_t *brief, uint64_t id)
{
    unsigned i = 0;

    while (i < DMA_BRIEF_SEEN && brief->seen[i].id != id) {
        i++;
    }
    return i;
}

unsigned dma_brief_calls(const dma_brief_t *brief, uint64_t id)
{
    unsigned at = id ? find_seen(brief, id) : DMA_BRIEF_SEEN;

    return at == DMA_BRIEF_SEEN ? 0 : brief->seen[at].calls;
}

bool dma_brief_is_young(const dma_brief_t *brief, uint64_t id)
{
    return dma_brief_calls(brief, id) < DMA_BRIEF_CALLS - 1;
}

void dma_brief_used(dma_brief_t *brief, uint64_t id)
{
    unsigned at = find_seen(brief, id);

    if (at == DMA_BRIEF_SEEN) {
        at = brief->next++ % DMA_BRIEF_SEEN;
        brief->seen[at].id = id;
        brief->seen[at].calls = 0;
    }
    brief->seen[at].calls++;
}
