/*
 * Translation of a plan's queue programs to copies of the runtime.
 *
 * All programs of a run become one list of pushes, one list of exchanges, and the own block. Programs are independent of each
 * other, so one batch may contain all of them. Operations of 0 bytes are left out.
 *
 *     pushes      one batch on the stream
 *     exchanges   a block of this rank (ours) and a block of a peer (theirs) exchange their contents by three batches, in
 *                 stream order:
 *                     temp <- theirs,  theirs <- ours,  ours <- temp
 *                 This repeats until all pieces, which are as large as `temp` allows, have been exchanged. The last batch
 *                 stays inside the device, and runtimes use compute units for it. The alternative uses links only:
 *                     temp <- theirs,  theirs <- ours,  spare <- theirs,  theirs <- temp,  ours <- theirs,  theirs <- spare
 *     own block   from the send buffer to the receive buffer of this rank: self_copy.h
 */
#ifndef DMA_STREAM_WORK_H
#define DMA_STREAM_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/gpu.h"

/* Temporary memory for exchanges: large pieces, and little of the device's memory. */
#define DMA_WORK_TEMP  (UINT64_C(32) << 20)
#define DMA_WORK_LEAST (UINT64_C(1) << 20)

/* Arguments of dma_gpu_runtime_t.copy_batch. */
typedef struct dma_copies {
    uint64_t *dst, *src, *bytes;
    size_t n, room;
} dma_copies_t;

static inline void dma_copies_add(dma_copies_t *c, uint64_t dst, uint64_t src, uint64_t bytes)
{
    c->dst[c->n] = dst;
    c->src[c->n] = src;
    c->bytes[c->n++] = bytes;
}

typedef struct dma_own_block {
    uint32_t prog; /* the program of this copy; 0: there is no own block */
    uint64_t dst, src, bytes;
} dma_own_block_t;

typedef struct dma_work {
    dma_copies_t pushes;
    dma_copies_t swaps; /* dst: the peer's block, src: this rank's block */
    dma_copies_t step;  /* the batch of one step of an exchange */
    dma_own_block_t own;
} dma_work_t;

/* Allocates room for the programs of `nranks` ranks. */
dma_status_t dma_work_create(dma_work_t *work, int nranks);
void dma_work_destroy(dma_work_t *work);

/* Collects the operations of a run. DMA_ERR_ENGINE: more operations than a plan can have. */
dma_status_t dma_work_collect(dma_work_t *work, const dma_run_t *run, int rank);

/* The caller is in the device's scope. `temp` has `temp_bytes` bytes: at least two pages for each rank. */
dma_status_t dma_work_push(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream);
dma_status_t dma_work_exchange(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, uint64_t temp,
                               uint64_t temp_bytes, bool by_links);

#endif
