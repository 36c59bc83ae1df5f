/* Copies between the user's blocks and slots: slot_copies.c. All of them copy pieces of a call by slots (by_slots.c). */
#ifndef DMA_DEVICE_SLOT_COPIES_H
#define DMA_DEVICE_SLOT_COPIES_H

#include "core/comm.h"

/* Blocks in a slot. */
static inline uint64_t dma_slot_blocks(const dma_comm_t *comm, const dma_task_t *task)
{
    return dma_coll_gathers(task->coll) ? 1 : (uint64_t)comm->nranks - 1;
}

/* Can blocks of these layouts be copied? */
bool dma_slots_can_copy(const dma_task_t *task);
/* Does one of the sides consist of rows? Then `get_room` finds device memory for packed pieces of at most `piece` bytes, and returns
 * how large they can be; 0: there is no memory. */
bool dma_slots_needs_room(const dma_task_t *task);
uint64_t dma_slots_get_room(dma_comm_t *comm, const dma_task_t *task, uint64_t piece);
/* The copies have ended. */
void dma_slots_put_room(dma_comm_t *comm, bool copies_ended);

/* In scope: start the copies of a piece into the own slot, and out of the slots of all peers; and of the own block, before the
 * first piece is taken. */
dma_status_t dma_slots_fill(dma_comm_t *comm, const dma_task_t *task, uint64_t piece);
dma_status_t dma_slots_take(dma_comm_t *comm, const dma_task_t *task, uint64_t piece);
dma_status_t dma_slots_copy_own(const dma_comm_t *comm, const dma_task_t *task);

#endif
