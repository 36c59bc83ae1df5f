/*
 * Allocations that do not live long.
 *
 * Peers open a receive buffer by IPC, which takes some 200 us with CUDA on a H100, once for each allocation. A program that
 * allocates a buffer for each of its calls would pay that in each call. If what is received goes through scratch memory
 * instead, which peers have open, such a call takes some 15 us more than into a buffer that is open.
 *
 * So when DMA_BRIEF_LOST allocations in a row have been freed before they have been used by DMA_BRIEF_CALLS calls, a new
 * allocation is not exported in its first calls. It is exported when it comes again after them. The first exported allocation
 * that has lived longer ends this. A program with an allocator of its own never gets here.
 *
 * An allocation is known by the id that the runtime gives it; without ids nothing is taken for brief. The caller has the lock.
 */
#ifndef DMA_GPU_BRIEF_H
#define DMA_GPU_BRIEF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { DMA_BRIEF_LOST = 2, DMA_BRIEF_CALLS = 3, DMA_BRIEF_SEEN = 64 };

typedef struct dma_brief {
    atomic_uint lost; /* allocations in a row that were freed early; read without the lock too */
    unsigned next;    /* place in the list */
    struct {
        uint64_t id;
        unsigned calls;
    } seen[DMA_BRIEF_SEEN]; /* the latest allocations that were not exported */
} dma_brief_t;

/* Have the last allocations been freed early? Without the lock. */
static inline bool dma_brief_expects(const dma_brief_t *brief)
{
    /* relaxed: a call more or less makes no difference */
    return atomic_load_explicit(&brief->lost, memory_order_relaxed) >= DMA_BRIEF_LOST;
}

/* An exported allocation has been freed, which `calls` calls had used. */
void dma_brief_freed(dma_brief_t *brief, unsigned calls);
/* Is this allocation, which is not exported, still in its first calls? */
bool dma_brief_is_young(const dma_brief_t *brief, uint64_t id);
/* How many calls have used it without an export, as far as that is known. */
unsigned dma_brief_calls(const dma_brief_t *brief, uint64_t id);
/* A call uses it without an export. */
void dma_brief_used(dma_brief_t *brief, uint64_t id);

#endif
