/*
 * Staging: memory of ours that stands in for the user's blocks of one side of a call.
 *
 * A stage replaces the receive side, the send side, or both, by packed blocks. Which blocks are copied, and when, depends
 * only on the operation:
 *
 *     in, before the call    send side: all blocks. Receive side: only in place, the blocks that are sent from it: the own
 *                            block of an all-gather, all blocks of an all-to-all
 *     out, after the call    receive side: all blocks, except the own block of an all-gather in place
 *
 * How bytes are copied is the stage's own: by the host services (resolve.c), by the runtime of a GPU between device and host
 * memory (device/stage.c), or inside a device (device/pack.c).
 *
 * A task can have several stages. Each stands in for what the one before it has left: stages are copied out in reverse order.
 */
#ifndef DMA_CORE_STAGING_H
#define DMA_CORE_STAGING_H

#include "dma/comm.h"
#include "dma/engine.h"

typedef struct dma_stage dma_stage_t;

/* Blocks first .. end - 1. */
typedef struct dma_range {
    int first, end;
} dma_range_t;

typedef struct dma_stage_ops {
    /* Copies the user's blocks of a range into `staged`: of the receive side, of the send side. */
    dma_status_t (*recv_in)(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                            dma_range_t range);
    dma_status_t (*send_in)(const dma_task_t *task, const dma_stage_t *stage, const dma_blocks_t *staged,
                            dma_range_t range);
    /* Copies all received blocks except number `except` (-1: none) to where the user wants them. */
    dma_status_t (*out)(const dma_task_t *task, const dma_stage_t *stage, int except);
} dma_stage_ops_t;

enum { DMA_SIDE_SEND, DMA_SIDE_RECV };

struct dma_stage {
    dma_stage_t *below; /* the one before it */
    const dma_stage_ops_t *ops;
    dma_blocks_t home; /* the receive side that is replaced */
    dma_blocks_t recv; /* what stands in for it */
    bool receives;     /* the receive side is replaced */
    bool keep_own;     /* the own block is where it belongs */
    char *memory[2];   /* by side: host memory of dma_staging_get; NULL: none */
};

/* The bytes of n blocks; and the same blocks one after the other in `memory`. `displs`: room for n numbers. */
uint64_t dma_blocks_all(const dma_blocks_t *blocks, int n);
dma_blocks_t dma_blocks_packed(const dma_blocks_t *blocks, int n, char *memory, int64_t *displs);

/* Blocks of the send side. */
dma_range_t dma_blocks_sent(dma_coll_t coll, int nranks);

/* A new stage of the task: `staged` stands in for the receive side, in place also for what is sent. `in_place`: the user's
 * call is. After an error the stage counts as made: dma_stages_drop gives its memory back. */
dma_status_t dma_stage_recv(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged, bool in_place);
/* `staged` stands in for the send side. */
dma_status_t dma_stage_send(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged);
/* Begins a stage, before the two above. */
void dma_stage_push(dma_task_t *task, dma_stage_t *stage, const dma_stage_ops_t *ops);

/* The call is over: what has been received goes to the user. */
dma_status_t dma_stages_out(dma_task_t *task);
/* The memory of all stages goes back to the communicator. `lost`: messages still use it, so it is given up. */
void dma_stages_drop(dma_task_t *task, bool lost);

/*
 * Host memory for a stage. Fresh memory costs more to fault in than to fill, so a communicator keeps one piece for each side.
 * Without a lock: tasks are resolved and dropped outside of the communicator's.
 */
typedef struct dma_staging dma_staging_t;
dma_status_t dma_staging_get(dma_comm_t *comm, dma_stage_t *stage, int side, uint64_t bytes);
void dma_staging_free(dma_staging_t *staging);

#endif
