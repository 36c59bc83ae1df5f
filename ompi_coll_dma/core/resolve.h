/*
 * Resolving a call: from the caller's sides (elements, counts, displacements, datatypes) to the byte blocks that plans move.
 *
 * A dense side is used where it is. A side that is not dense is staged (staging.h), except the one block that an all-gather
 * sends: it is packed straight into its place in the result. Counts and displacements are turned into bytes once, when the
 * call is posted.
 */
#ifndef DMA_CORE_RESOLVE_H
#define DMA_CORE_RESOLVE_H

#include "dma/comm.h"
#include "dma/engine.h"

/* Arrays of one task, one element per rank. */
typedef struct dma_arrays {
    uint64_t *send_counts, *recv_counts;
    int64_t *send_displs, *recv_displs;
    int64_t *home; /* where received blocks of a staged side belong, in bytes from the side's address */
} dma_arrays_t;

size_t dma_arrays_bytes(int nranks);

/* Sets the blocks, the size and the sign of a task with arrays. */
dma_status_t dma_task_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call);

/* A hash of the sizes of all blocks of an all-gather-v. Every rank knows all sizes, so all ranks find a difference in
 * any of them, also the rank that is wrong. */
static inline uint64_t dma_blocks_digest(const dma_blocks_t *blocks, int nranks)
{
    uint64_t digest = 0;

    for (int r = 0; r < nranks; r++) {
        digest = (digest ^ dma_blocks_bytes(blocks, (uint64_t)r)) * UINT64_C(0x9e3779b97f4a7c15);
        digest ^= digest >> 29;
    }
    return digest;
}

static inline size_t dma_number(const void *array, uint8_t width, int i)
{
    return width == sizeof(int) ? (size_t)((const int *)array)[i] : (size_t)((const int64_t *)array)[i];
}

static inline ptrdiff_t dma_displ(const void *array, uint8_t width, int i)
{
    return width == sizeof(int) ? ((const int *)array)[i] : (ptrdiff_t)((const int64_t *)array)[i];
}

/* Elements of block b of a side, and the address of its first element. A side without elements may be at NULL and have
 * displacements; C does not allow adding to NULL. */
static inline size_t dma_side_count(const dma_side_t *side, int b)
{
    return side->counts ? dma_number(side->counts, side->width, b) : side->count;
}

static inline char *dma_side_addr(const dma_side_t *side, int b)
{
    ptrdiff_t at = side->counts ? dma_displ(side->displs, side->width, b) : (ptrdiff_t)side->count * b;

    return (char *)((uintptr_t)side->addr + (uintptr_t)(side->in_bytes ? at : at * side->extent));
}

/* The side with the datatype of block b, as if all blocks had it. */
static inline dma_side_t dma_side_typed(const dma_host_t *host, const dma_side_t *side, int b)
{
    dma_side_t typed = *side;

    if (side->types) {
        typed.types = NULL;
        host->type_side(side->types[b], &typed);
    }
    return typed;
}

/* Block b alone, as a side of one block. */
static inline dma_side_t dma_side_block(const dma_host_t *host, const dma_side_t *side, int b)
{
    dma_side_t block = dma_side_typed(host, side, b);

    block.addr = dma_side_addr(&block, b);
    block.count = dma_side_count(&block, b);
    block.counts = NULL;
    return block;
}

static inline char *dma_side_at(const dma_host_t *host, const dma_side_t *side, int b)
{
    return __builtin_expect(!side->types, 1) ? dma_side_addr(side, b) : dma_side_block(host, side, b).addr;
}

static inline uint64_t dma_side_bytes(const dma_host_t *host, const dma_side_t *side, int b)
{
    return dma_side_count(side, b) *
           (__builtin_expect(!side->types, 1) ? side->size : dma_side_typed(host, side, b).size);
}

#endif
