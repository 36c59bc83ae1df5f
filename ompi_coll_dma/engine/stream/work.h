/*
 * From a plan's queue programs to copies of the runtime.
 *
 * All programs of a run become one list of pushes, one of exchanges, and the own block: programs are independent of each
 * other, so one batch may hold them all. What has no bytes is left out.
 *
 *     pushes      given to the stream in one batch
 *     exchanges   two places change contents by three batches, each in the stream's order behind the one before:
 *                     temp <- theirs,  theirs <- ours,  ours <- temp
 *                 and again, until all pieces that fit into `temp` at a time have been exchanged. The last one stays inside
 *                 the device, and runtimes do that with compute units. By the links alone:
 *                     temp <- theirs,  theirs <- ours,  spare <- theirs,  theirs <- temp,  ours <- theirs,  theirs <- spare
 *     own block   from the send buffer into the receive buffer of this rank: own.h
 */
#ifndef DMA_STREAM_WORK_H
#define DMA_STREAM_WORK_H

#include <stdbool.h>
#include <stddef.h>

#include "engine/gpu.h"

#define DMA_WORK_TEMP (UINT64_C(32) << 20) /* bytes through which exchanges go */

/* Copies for one call of the runtime, in its form. */
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
    uint32_t prog; /* whose line tells that it is there; 0: there is none */
    uint64_t dst, src, bytes;
} dma_own_block_t;

typedef struct dma_work {
    dma_copies_t pushes;
    dma_copies_t swaps; /* dst: theirs, src: ours */
    dma_copies_t step;  /* one of the three batches of an exchange */
    dma_own_block_t own;
} dma_work_t;

/* Room for the programs of `nranks` ranks. */
dma_status_t dma_work_create(dma_work_t *work, int nranks);
void dma_work_destroy(dma_work_t *work);

/* The run's operations; DMA_ERR_ENGINE: more than a plan can have. */
dma_status_t dma_work_collect(dma_work_t *work, const dma_run_t *run, int rank);

/* In the device's scope. */
dma_status_t dma_work_push(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream);
dma_status_t dma_work_exchange(dma_work_t *work, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream, uint64_t temp,
                               bool by_links);

#endif
