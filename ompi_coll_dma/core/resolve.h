/*
 * Placing a call: from the caller's sides (elements, counts, displacements, datatypes) to the byte blocks that plans move.
 *
 * Dense sides are used where they are. What is not dense is packed into staging memory or, for the one block that an
 * all-gather sends, straight into its place in the result; results that are not dense are received packed and unpacked at
 * completion. Counts and displacements are turned into bytes once, at the post.
 */
#ifndef DMA_TASK_PLACE_H
#define DMA_TASK_PLACE_H

#include "dma/comm.h"
#include "dma/engine.h"

/* Arrays of one task, one element per rank. */
typedef struct dma_arrays {
    uint64_t *send_counts, *recv_counts;
    int64_t *send_displs, *recv_displs;
    int64_t *home; /* where packed results belong, in bytes from the side's address */
} dma_arrays_t;

size_t dma_arrays_bytes(int nranks);
dma_arrays_t dma_arrays_at(void *memory, int nranks);

static inline size_t dma_number(const void *array, uint8_t width, int i)
{
    return width == sizeof(int) ? (size_t)((const int *)array)[i] : (size_t)((const int64_t *)array)[i];
}

static inline ptrdiff_t dma_displ(const void *array, uint8_t width, int i)
{
    return width == sizeof(int) ? ((const int *)array)[i] : (ptrdiff_t)((const int64_t *)array)[i];
}

/* Elements of block b of a side, and the address of its first. A side without elements may be at NULL and have displacements,
 * which C does not let us add. */
static inline size_t dma_side_count(const dma_side_t *side, int b)
{
    return side->counts ? dma_number(side->counts, side->width, b) : side->count;
}

static inline char *dma_side_addr(const dma_side_t *side, int b)
{
    ptrdiff_t at = side->counts ? dma_displ(side->displs, side->width, b) : (ptrdiff_t)side->count * b;

    return (char *)((uintptr_t)side->addr + (uintptr_t)(at * side->extent));
}

#endif
