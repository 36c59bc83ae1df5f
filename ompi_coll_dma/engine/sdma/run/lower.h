/*
 * Lowering: translation of queue programs to packets.
 *
 *     COPY      copy packets of at most the generation's limit. Between blocks with shapes, strided copies, possibly
 *               through temporary memory of the program: see shaped.h.
 *     COPY2     a broadcast if the two destinations allow it, otherwise two copies
 *     SWAP      a swap packet if addresses and length allow it. The rest (a tail, or everything) is copied through temporary
 *               memory of the queue, piece by piece, with a drain (a fence and a poll for it) behind each copy:
 *                   temp <- theirs, drain, theirs <- ours, drain, ours <- temp, drain
 *               A piece is one group of packets, so that no pieces of other programs come in between. Without DMA_GEN_POLL
 *               the CPU waits for each copy, so that pieces of other programs may come in between. Then the temporary memory
 *               is that of the program.
 *     SIGNAL    a fence that writes the run's epoch to the program's line. With stamps a fence and a timestamp come first:
 *               the fence waits for the copies, the timestamp does not
 *     WAIT      nothing, because all peers have entered when a run starts, and when an armed one is let go
 *
 * Lowering can stop between any two groups of packets if the ring is full, and continue from there.
 */
#ifndef DMA_SDMA_LOWER_H
#define DMA_SDMA_LOWER_H

#include "engine/gpu.h"
#include "engine/sdma/queues/queue.h"
#include "engine/sdma/run/shaped.h"

/* The position in a program. */
typedef struct dma_lower {
    uint32_t op;
    uint64_t done; /* bytes of the operation that are in the ring; for a copy between shapes: 0 if it has not begun */
    uint32_t step; /* of the piece of a swap, where the CPU drains */
    dma_drain_t drain;
    bool stamped; /* the time of the beginning is in the ring */
} dma_lower_t;

/* Where the engine writes the times of a program, for a trace. */
typedef struct dma_stamps {
    _Alignas(32) uint64_t begin;
    _Alignas(32) uint64_t end;
    _Alignas(32) uint32_t landed; /* by a fence in front of the end; nobody reads it */
} dma_stamps_t;

/* The destination of the packets, and the features that may be used. */
typedef struct dma_lower_target {
    const dma_gen_t *gen;
    dma_queue_t *queue;
    uint64_t line;        /* the device's address of the program's line */
    bool swaps;           /* swap packets may be used */
    bool bcsts;           /* broadcast packets may be used */
    dma_shaped_t *shaped; /* state of the program's copy between shapes */
    uint64_t stamps;      /* the device's address of the program's dma_stamps_t; 0: it has none */
} dma_lower_target_t;

/* Returns which temporary memory a program needs with these addresses: a bit mask. */
typedef enum dma_lower_temp {
    DMA_LOWER_QUEUE_TEMP = 1 << 0, /* dma_queue_t.temp */
    DMA_LOWER_OWN_TEMP = 1 << 1,   /* dma_shaped_t.temp of the program */
} dma_lower_temp_t;
uint32_t dma_lower_temps(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to);

/* Continues to lower a program; the caller holds the queue's lock. DMA_OK: the whole program is in the ring,
 * unpublished. DMA_AGAIN: the ring is full. */
dma_status_t dma_lower_program(const dma_run_t *run, const dma_prog_t *prog, const dma_lower_target_t *to,
                               dma_lower_t *at);
/* The same for a range of the bytes of one COPY or COPY2 between contiguous blocks; at->done counts from `offset`. */
dma_status_t dma_lower_range(const dma_run_t *run, const dma_op_t *op, const dma_lower_target_t *to, uint64_t offset,
                             uint64_t bytes, dma_lower_t *at);
/* Has a program nothing but waits, copies between contiguous blocks, and its signal? */
bool dma_lower_is_plain(const dma_run_t *run, const dma_prog_t *prog);

#endif
