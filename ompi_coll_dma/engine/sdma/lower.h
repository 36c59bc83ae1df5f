/*
 * From queue programs to packets.
 *
 *     COPY      copies of at most the generation's limit; between blocks with shapes, perhaps through memory of the
 *               program's own, see shaped.h
 *     COPY2     a broadcast if the two places suit one, else two copies
 *     SWAP      a swap if places and length suit one; what does not (a tail, or all of it) by copies through memory of
 *               the queue's own, piece by piece, each with a fence and a poll between the steps that need one:
 *                   temp <- theirs, wait, theirs <- ours, wait, ours <- temp, wait
 *               A piece is one group of packets, so that pieces of others do not come between.
 *     SIGNAL    a fence that writes the run's epoch to the program's line
 *     WAIT      nothing: all peers have entered when a run starts; where it is armed, a poll of the peer's ready word
 *
 * Lowering can stop anywhere between two groups of packets, when a ring is full, and go on from there.
 */
#ifndef DMA_SDMA_LOWER_H
#define DMA_SDMA_LOWER_H

#include "engine/gpu.h"
#include "engine/sdma/queue.h"
#include "engine/sdma/shaped.h"

/* Where lowering stands. */
typedef struct dma_lower {
    uint32_t op;
    uint64_t done; /* bytes of it; of a copy between shapes: 0: not begun */
} dma_lower_t;

/* What a program is lowered to. */
typedef struct dma_lower_target {
    const dma_gen_t *gen;
    dma_queue_t *queue;
    uint64_t line;         /* of the program, as the device sees it */
    bool swaps;            /* swap packets may be used */
    bool bcsts;            /* broadcasts may be used */
    dma_shaped_t *shaped;  /* where its copy between shapes stands */
    const uint64_t *ready; /* armed: the ranks' ready words; else NULL */
} dma_lower_target_t;

/* Memory in between that a program needs, with these addresses: a bit mask. */
typedef enum dma_lower_temp {
    DMA_LOWER_QUEUE_TEMP = 1 << 0, /* the queue's */
    DMA_LOWER_OWN_TEMP = 1 << 1,   /* its own */
} dma_lower_temp_t;
uint32_t dma_lower_temps(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to);

/* Goes on with a program, with the queue's lock. DMA_OK: all of it is in the ring, unpublished. DMA_AGAIN: the ring is
 * full. */
dma_status_t dma_lower_program(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to,
                               dma_lower_t *at);

#endif
