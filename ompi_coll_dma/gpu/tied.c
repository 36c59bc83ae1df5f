/* Blocks of the driver that exports tie up: see tied.h. */
#include "gpu/tied.h"

#define ASK_EVERY 64 /* refusals: one question per entry costs less than the call that asks */

bool dma_tied_concerns(const dma_gpu_runtime_t *rt, const dma_gpu_memory_t *memory)
{
    return rt->holds && !memory->mapped && memory->size < DMA_TIED_BLOCK_BYTES;
}

static bool is_listed(const dma_tied_t *tied, uint64_t addr)
{
    unsigned i = 0;

    while (i < tied->n && tied->addr[i] / DMA_TIED_BLOCK_BYTES != addr / DMA_TIED_BLOCK_BYTES) {
        i++;
    }
    return i < tied->n;
}

static void remove_returned(dma_tied_t *tied, const dma_gpu_runtime_t *rt)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < tied->n; i++) {
        if (rt->holds(tied->addr[i])) {
            tied->addr[kept++] = tied->addr[i];
        }
    }
    tied->n = kept;
}

bool dma_tied_has_room(dma_tied_t *tied, const dma_gpu_runtime_t *rt, uint64_t addr)
{
    if (tied->n < DMA_TIED_MOST || is_listed(tied, addr)) {
        return true;
    }
    if (tied->refusals++ % ASK_EVERY == 0) {
        remove_returned(tied, rt);
    }
    if (tied->n == DMA_TIED_MOST) {
        return false;
    }
    tied->refusals = 0;
    return true;
}

void dma_tied_add(dma_tied_t *tied, uint64_t addr)
{
    if (tied->n < DMA_TIED_MOST && !is_listed(tied, addr)) {
        tied->addr[tied->n++] = addr;
    }
}
