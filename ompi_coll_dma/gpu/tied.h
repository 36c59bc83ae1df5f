/*
 * Blocks of the driver that exports of this process tie up.
 *
 * A runtime that carves small allocations out of blocks of 2 MiB exports the whole block. From then on it carves nothing more
 * out of it. So an exported allocation of 4 KiB can cost 2 MiB. ROCr (seen in 5.2; mended in the middle of 2026) also keeps the
 * block for good if the block had other allocations when it was exported, although all of them are freed later. So a program
 * that allocates, calls and frees in a loop would lose 2 MiB per iteration.
 *
 * This list bounds both. It has an address in each block in which this process has exported small memory. At DMA_TIED_MOST
 * entries, those whose block the driver has got back are removed. If none is, no small allocation in a further block may be
 * exported: what is received there goes through scratch memory. Allocations of a block or more are alone in theirs, and are not
 * listed. The scratch memory of this process has such a size.
 *
 * An address that the driver has given out again counts as the old block. So the list may be too long, never too short.
 * A runtime without `holds` does not have the fault, and nothing is listed. The caller has the lock.
 */
#ifndef DMA_GPU_TIED_H
#define DMA_GPU_TIED_H

#include "gpu/runtime.h"

#define DMA_TIED_BLOCK_BYTES (UINT64_C(2) << 20) /* blocks are aligned to it */
#define DMA_TIED_MOST        64                  /* 128 MiB */

typedef struct dma_tied {
    uint64_t addr[DMA_TIED_MOST]; /* each in a block of its own */
    unsigned n;
    unsigned refusals; /* since the driver was asked */
} dma_tied_t;

/* Can an export of this memory tie up a block? */
bool dma_tied_concerns(const dma_gpu_runtime_t *rt, const dma_gpu_memory_t *memory);
/* May memory at this address be exported? At the bound, one of 64 questions asks the driver. */
bool dma_tied_has_room(dma_tied_t *tied, const dma_gpu_runtime_t *rt, uint64_t addr);
/* It has been exported. */
void dma_tied_add(dma_tied_t *tied, uint64_t addr);

#endif
