/*
 * Staging: memory of coll/dma that replaces the user's blocks of one side of a call.
 *
 * A stage replaces the receive side, the send side, or both, by packed blocks. Which blocks are copied, and when, depends
 * only on the operation:
 *
 *     in, before the call    send side: all blocks. Receive side: only in place, the blocks that are sent from it: the own
 *                            block of an all-gather, all blocks of an all-to-all
 *     out, after the call    receive side: all blocks, except the own block of an all-gather in place
 *
 * Each kind of stage has its own functions that copy: with the host services (resolve.c), with the runtime of a GPU
 * between device and host memory (device/stage.c), or inside a device (device/scratch.c).
 *
 * A task can have several stages. Each replaces the blocks that the one before it has left. So they are copied out in
 * reverse order.
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
    dma_stage_t *below; /* the stage before this one */
    const dma_stage_ops_t *ops;
    dma_blocks_t home; /* the receive side that is replaced */
    dma_blocks_t recv; /* the blocks that replace it */
    bool receives;     /* the receive side is replaced */
    bool keep_own;     /* the own block is in its place already and is not copied out */
    char *memory[2];   /* by side: host memory of dma_staging_get; NULL: none */
};

/* The sum of the bytes of n blocks; and blocks of the same sizes, one after the other in `memory`. `displs`: room for n
 * numbers. */
uint64_t dma_blocks_all(const dma_blocks_t *blocks, int n);
dma_blocks_t dma_blocks_packed(const dma_blocks_t *blocks, int n, char *memory, int64_t *displs);

/* Blocks of the send side. */
dma_range_t dma_blocks_sent(dma_coll_t coll, int nranks);

/* Makes a stage of the task: `staged` replaces the receive side, and in place also the send side. `in_place`: whether
 * the user's call is in place. After an error the stage still belongs to the task: dma_stages_drop frees its memory. */
dma_status_t dma_stage_recv(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged, bool in_place);
/* The same for the send side: `staged` replaces it. */
dma_status_t dma_stage_send(dma_task_t *task, dma_stage_t *stage, const dma_blocks_t *staged);
/* Begins a stage, before the two above. */
void dma_stage_push(dma_task_t *task, dma_stage_t *stage, const dma_stage_ops_t *ops);

/* The call has ended: copies the received blocks to the user's memory. */
dma_status_t dma_stages_out(dma_task_t *task);
/* Returns the memory of all stages to the communicator. `lost`: messages still use the memory, so it is never freed. */
void dma_stages_drop(dma_task_t *task, bool lost);

/*
 * Host memory for a stage. The page faults of new memory take longer than filling it, so a communicator keeps one
 * allocation for each side. These functions are called without the communicator's lock, because tasks are resolved and
 * dropped without it.
 */
typedef struct dma_staging dma_staging_t;
dma_status_t dma_staging_get(dma_comm_t *comm, dma_stage_t *stage, int side, uint64_t bytes);
void dma_staging_free(dma_staging_t *staging);

#endif
