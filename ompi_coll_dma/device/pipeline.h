/*
 * A call in pieces, through memory of ours. One machine for calls in which engines move the pieces between the memory of the ranks
 * (pieces.c), and for those in which each rank's device takes them out of its peers' (by_slots.c).
 *
 *     fill k      copies what this rank sends of piece k into memory of ours
 *     vote k      of this rank: fill k has ended, and so has drain k - LAG. So all that a peer needs for piece k is ready
 *     move k      when all ranks have voted for k: engines copy the piece between the ranks. Without engines it has no step
 *     drain k     when move k has ended: copies the piece out of our memory, or out of that of peers
 *
 *     fills       | 0 | 1 |     | 2 |     | 3 |
 *     moves           | 0     | 1     | 2     | 3     |
 *     drains                  | 0 |   | 1 |   | 2 |   | 3 |
 *
 * A rank can always vote for the next piece when all have voted for the present one, because the memory has room for more pieces
 * than LAG (`depth`), or engines end a move without votes. So no rank waits for a vote of another that waits for its own.
 *
 * Copies of both kinds are on streams of the lease. An event behind each says when it has ended; copies by processors have ended when
 * they return. The communicator's lock is held.
 */
#ifndef DMA_DEVICE_PIPELINE_H
#define DMA_DEVICE_PIPELINE_H

#include "core/comm.h"
#include "device/lease.h"
#include "device/votes.h"

#define DMA_PIPE_LAG 2 /* pieces whose drains may be under way when this rank votes */

typedef struct dma_pipe_ops {
    unsigned depth; /* pieces in the memory; as many events of the lease for each direction */
    unsigned tail;  /* votes behind those for pieces, so that a rank knows that its peers have drained all */
    bool (*may_fill)(const dma_comm_t *comm, uint64_t piece);
    /* In scope of the lease's device. */
    dma_status_t (*fill)(dma_comm_t *comm, const dma_task_t *task, uint64_t piece);
    dma_status_t (*drain)(dma_comm_t *comm, const dma_task_t *task, uint64_t piece);
    /* A move: `begin` once, then `submit` and `run` until they return DMA_OK. All NULL: there are no moves. */
    dma_status_t (*begin)(dma_comm_t *comm, dma_task_t *task, uint64_t piece);
    dma_status_t (*submit)(dma_comm_t *comm, dma_task_t *task);
    dma_status_t (*run)(dma_comm_t *comm, dma_task_t *task);
} dma_pipe_ops_t;

typedef struct dma_pipe {
    const dma_pipe_ops_t *ops;
    dma_device_ballot_t ballot;
    uint32_t first;           /* number of the agreement on piece 0 */
    const dma_lease_t *lease; /* whose streams and events copies use; NULL, or without a runtime: copies end at once */
    bool fills, drains;       /* this rank copies in this direction */
    int drain_stream;         /* fills are on stream 0 */
    uint64_t count;           /* pieces */
    /* How many pieces have come so far, in this order; votes by this rank. */
    uint64_t filling, filled, votes, begun, submitted, moved, draining, drained;
} dma_pipe_t;

/* How many of the `bytes` bytes of a block belong to a piece, if pieces have `most`. */
static inline uint64_t dma_pipe_part(uint64_t most, uint64_t bytes, uint64_t piece)
{
    uint64_t skip = piece * most, left = bytes > skip ? bytes - skip : 0;

    return left < most ? left : most;
}

/* Begins with the first votes of the ballot from now on, and starts the first fills. The other members are set. */
dma_status_t dma_pipe_begin(dma_comm_t *comm, dma_task_t *task, dma_pipe_t *pipe);
/* DMA_OK: all pieces have been drained, by all ranks if there is a tail. Errors: other ranks depend on this one. */
dma_status_t dma_pipe_advance(dma_comm_t *comm, dma_task_t *task, dma_pipe_t *pipe);
/* Have all ranks voted for a piece? */
bool dma_pipe_voted(const dma_comm_t *comm, const dma_pipe_t *pipe, uint64_t piece);
/* Does it wait for votes of others? */
bool dma_pipe_waits_for_votes(const dma_comm_t *comm, const dma_pipe_t *pipe);
/* A number that changes from step to step. */
uint64_t dma_pipe_position(const dma_pipe_t *pipe);

#endif
