/*
 * What a collective on the DMA engines of a node's GPUs costs: a pure function, in integers, of facts equal on all ranks.
 *
 * A call is cut into four phases that follow each other, and its cost is their sum:
 *
 *     control    a processor writes packets                    none when they were written beforehand (prelaunch)
 *     schedule   doorbells, until the last queue has begun     or: the trigger, until every queue has seen it
 *     copy       the busiest queue's copies
 *     sync       its completion is written, all are observed
 *
 * Who submits decides what is counted. One process that drives all GPUs writes all packets, one after another: so were
 * the measurements made that the built-in profile is fitted to. With a process per GPU every process writes its own and
 * watches its own queues and those that write into its memory: that is a prediction.
 * Not in here, because it is the same for every variant: the ranks' meeting before the first copy.
 */
#ifndef DMA_PLAN_GPU_COST_H
#define DMA_PLAN_GPU_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/plan.h"
#include "plan/gpu/profile.h"

/* The packets that move the blocks of one GPU; n GPUs. */
typedef enum dma_gpu_family {
    DMA_GPU_COPY,   /* n - 1 copies: on n - 1 queues pcpy, on fewer b2b */
    DMA_GPU_BCST,   /* n / 2 broadcasts of one block to two GPUs (the last perhaps to one): all-gathers */
    DMA_GPU_SWAP,   /* n / 2 swaps at most, each for both sides: all-to-alls in place */
    DMA_GPU_HALVES, /* n - 1 swaps of half a block: each side of a pair drives one half */
    DMA_GPU_FAMILY_COUNT
} dma_gpu_family_t;

typedef struct dma_gpu_shape {
    dma_gpu_family_t family;
    int nranks;         /* GPUs, at least 1 */
    int queues;         /* per GPU; taken as between 1 and dma_gpu_packets */
    uint64_t bytes;     /* of a block */
    bool own_block;     /* out of place: each GPU also copies its own block, on a queue of its own */
    bool prelaunch;     /* the packets are in the rings already and wait for a trigger */
    bool one_submitter; /* one process drives all GPUs; else one per GPU */
} dma_gpu_shape_t;

/* Picoseconds. No profile and no size wraps them: what is too much is UINT64_MAX. */
typedef struct dma_gpu_phases {
    uint64_t control;
    uint64_t schedule;
    uint64_t copy;
    uint64_t sync;
} dma_gpu_phases_t;

/* Packets that move blocks, of the GPU that has most of them: also the most queues that are of use. */
int dma_gpu_packets(dma_gpu_family_t family, int nranks);

dma_gpu_phases_t dma_gpu_phases(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape);
/* One copy from one GPU to another by one process. */
dma_gpu_phases_t dma_gpu_phases_of_copy(const dma_gpu_profile_t *profile, uint64_t bytes);
uint64_t dma_gpu_phases_sum(const dma_gpu_phases_t *phases);
uint64_t dma_gpu_cost(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape);

/* "pcpy", "b2b", "bcst", "swap" or "halves". */
const char *dma_gpu_shape_name(const dma_gpu_shape_t *shape);

/* What a call wants and what the node can do: facts equal on all ranks. */
typedef struct dma_gpu_req {
    dma_coll_t coll;
    int nranks;
    uint64_t bytes;
    bool in_place;
    bool prelaunch; /* packets may be written beforehand */
    bool one_submitter;
    uint32_t families; /* bit mask of 1 << dma_gpu_family_t: what engines and buffers allow */
    int max_queues;    /* per GPU, without that of the own block; 0: as many as are of use */
} dma_gpu_req_t;

/* The cheapest shape for the request, and what it costs; of equals the one with plainer packets, then not prelaunched,
 * then with fewer queues. False when no family does the operation. */
bool dma_gpu_choose(const dma_gpu_profile_t *profile, const dma_gpu_req_t *req, dma_gpu_shape_t *shape,
                    uint64_t *cost_ps);

#endif
