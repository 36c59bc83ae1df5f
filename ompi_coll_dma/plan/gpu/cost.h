/*
 * The cost model of collectives on the DMA engines of a node's GPUs: pure functions, in integers, of facts that are
 * equal on all ranks.
 *
 * A call has four phases that follow each other. Its cost is their sum:
 *
 *     control    a processor writes packets                  prelaunched: see below
 *     schedule   doorbells, until the last queue has begun   prelaunched: the trigger, until every queue has seen it
 *     copy       the packets of the busiest queue
 *     sync       that queue writes its completion, and processors observe all completions
 *
 * "Prelaunched" packets are in the rings before the call. Each queue then polls a word that the call writes, the
 * trigger.
 *
 * dma_gpu_work counts the work of a process that drives one GPU: the process writes the packets of its own queues, and
 * observes its own queues and those that write into its memory. Its prelaunched calls take more than those of the published
 * measurements that the built-in profile is fitted to, where one process drives all GPUs and nothing can be taken back:
 *
 *     - Each queue has one more packet, the COND_EXE with which a program is revoked (engine/sdma/run/arm.c). The queues execute
 *       theirs at the same time. Nobody has measured it: it counts as packet_ps, which is what any further packet takes. It
 *       reads a word of host memory, so that may be too little.
 *     - The last rank to start writes a trigger for each rank. A store to a line that another processor polls is counted as
 *       observe_ps, since that is the time in which a line goes from one to another.
 *     - The own block is not prelaunched: its packet and doorbell are written while the engines see their triggers.
 *     - The packets of the next start are written while the engines copy. Only what takes longer than the engines is "control".
 *
 * tools/fit_model.c counts the work of one process for all, and computes the phases with the functions below.
 *
 * The model leaves out the entry of the ranks before the first copy, because it takes the same time for every
 * variant.
 */
#ifndef DMA_PLAN_GPU_COST_H
#define DMA_PLAN_GPU_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/plan.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"

/* The kind of packets that move the blocks of one GPU, of n GPUs. */
typedef enum dma_gpu_family {
    DMA_GPU_COPY,   /* n - 1 copies: variant pcpy on n - 1 queues, variant b2b on fewer */
    DMA_GPU_BCST,   /* n / 2 broadcasts of a block to two GPUs (if n is even, one goes to one GPU only): all-gathers */
    DMA_GPU_SWAP,   /* at most n / 2 swaps, each for both GPUs of a pair: all-to-alls in place */
    DMA_GPU_HALVES, /* n - 1 swaps of half a block: each GPU of a pair drives one half */
    DMA_GPU_FAMILY_COUNT
} dma_gpu_family_t;

typedef struct dma_gpu_shape {
    dma_gpu_family_t family;
    int nranks;     /* GPUs, at least 1 */
    int queues;     /* per GPU, for its peers; clamped to 1 .. dma_gpu_packets() */
    uint64_t bytes; /* of a block */
    bool own_block; /* out of place: each GPU also copies its own block, on one more queue */
    bool by_copies; /* engines without a swap: an exchange is three copies through memory of the engine's GPU */
    bool prelaunch;
} dma_gpu_shape_t;

/* What a call asks of the submitting process and of its engines. */
typedef struct dma_gpu_work {
    uint64_t packets;     /* that the process writes */
    uint64_t queues;      /* that the process starts */
    uint64_t completions; /* that the process observes */
    uint64_t chain;       /* packets on the busiest queue */
    dma_wide_t move_ps;   /* what the busiest engine or link needs to move its bytes */
    dma_wide_t own_ps;    /* the same for the queue of the own block; 0: there is none */
    /* Of prelaunched calls: */
    uint64_t own_queues; /* of `queues`, which are not prelaunched */
    uint64_t conditions; /* packets in front of the first copy of a queue */
    uint64_t triggers;   /* that are written after the first */
    bool rearms; /* the process writes the packets of the next call, one more for each queue, while engines copy */
} dma_gpu_work_t;

/* Picoseconds. No profile and no size makes them wrap: UINT64_MAX stands for everything above. */
typedef struct dma_gpu_phases {
    uint64_t control;
    uint64_t schedule;
    uint64_t copy;
    uint64_t sync;
} dma_gpu_phases_t;

/* Packets that move blocks, of the GPU that has most of them. More queues than that are of no use. */
static inline int dma_gpu_packets(dma_gpu_family_t family, int nranks)
{
    return family == DMA_GPU_BCST || family == DMA_GPU_SWAP ? nranks / 2 : nranks - 1;
}

/* The work of a process that drives one GPU. */
dma_gpu_work_t dma_gpu_work(const dma_gpu_profile_t *profile, const dma_gpu_shape_t *shape);
dma_gpu_phases_t dma_gpu_phases(const dma_gpu_profile_t *profile, const dma_gpu_work_t *work, bool prelaunch);
uint64_t dma_gpu_phases_sum(const dma_gpu_phases_t *phases);

#endif
