/*
 * The scratch memory of a process: blocks of plain device memory that calls borrow (scratch.c, pieces.c).
 *
 * A block belongs to the process and not to a communicator. So memory does not grow with the number of communicators, peers
 * find the same exports again on each of them, and the sum of all blocks can have a bound (gpu/budget.h). A call has a block
 * of its own until it ends. So a process has as many blocks of a device as it has ever had such calls in progress at once.
 *
 *     the call fits into an idle block            It gets the smallest such block.
 *     it would fit within the bound               Idle blocks of the device are freed, they are all smaller, and then others,
 *                                                 the least recently used first. A new block is made. It is half as large again
 *                                                 as needed if that leaves as much to others: peers have to open new memory.
 *     it does not fit                             The call gets half of what is left to it, so that another call gets
 *                                                 something, too. It is carried out in pieces.
 *     there is no room on the device              The same with half of the size, and so on.
 *     less is left than the least                 DMA_ERR_NOMEM: the call goes through the host.
 *
 * Blocks of a device are freed when its last communicator has ended. The block of a call that has failed is not used again,
 * because engines of peers may still write to it. It is freed with its communicator.
 */
#ifndef DMA_DEVICE_POOL_H
#define DMA_DEVICE_POOL_H

#include "core/comm.h"
#include "gpu/cache.h"
#include "gpu/memory.h"
#include "gpu/runtime.h"

typedef struct dma_scratch {
    dma_cached_t block;      /* first; busy: a call has it, or it is lost */
    uint64_t addr;           /* aligned as the runtime aligns allocations */
    dma_gpu_memory_t memory; /* what the runtime says of it */
    /* Of copies into the block, or of all copies; and of copies out of it that may run at the same time (pieces.c). */
    dma_gpu_stream_t *stream[2];
    dma_gpu_event_t *event[2];
    const dma_comm_t *user; /* whose call has it or has lost it; else NULL */
    bool lost;              /* engines of peers may still write to it */
} dma_scratch_t;

/* Gets a block of at least `want` bytes for a call of the communicator, else a smaller one of at least `least` bytes. */
dma_status_t dma_scratch_get(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t want,
                             uint64_t least, dma_scratch_t **scratch);
/* The same for the life of the communicator: not much more than `bytes`. */
dma_status_t dma_scratch_get_lasting(const dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device, uint64_t bytes,
                                     dma_scratch_t **scratch);
/* Peers may write to the block at any later time: it stays until the process ends. */
void dma_scratch_keep(dma_proc_t *proc, dma_scratch_t *scratch);
/* Waits for the copies on the block's stream, after an error. */
void dma_scratch_wait(const dma_scratch_t *scratch);
/* The call has ended. `lost`: engines of peers may still write to the block. */
void dma_scratch_put(dma_proc_t *proc, dma_scratch_t *scratch, bool lost);
/* The communicator ends: frees what its failed calls have left. `permanent`: queues may still use it, so it stays. */
void dma_scratch_leave(const dma_comm_t *comm, bool permanent);
/* With the device lock: no communicator uses the device any more. */
void dma_scratch_trim(dma_proc_t *proc, const dma_gpu_runtime_t *rt, int device);
void dma_scratch_destroy(dma_proc_t *proc);

#endif
