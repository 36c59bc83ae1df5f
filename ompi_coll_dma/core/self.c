/*
 * The self route: communicators of one rank.
 *
 * All there is to do is to copy the rank's own block from the send buffer to the receive buffer. No set-up, no shared memory
 * and no messages are needed. Such communicators are served because other components copy the block with the CPU, also where
 * it is in device memory.
 */
#include "core/comm.h"
#include "dma/copy.h"

static dma_status_t self_setup_begin(dma_comm_t *comm)
{
    comm->state = DMA_COMM_READY;
    return DMA_OK;
}

static dma_status_t self_setup_advance(dma_comm_t *comm)
{
    (void)comm;
    return DMA_OK;
}

static void copy_own_block(dma_comm_t *comm, const dma_run_t *run)
{
    char *to = dma_blocks_addr(&run->recv, 0);
    const char *from = dma_blocks_addr(&run->send, 0);
    uint64_t bytes = dma_blocks_bytes(&run->send, 0);

    if (bytes && to != from) {
        dma_copy(to, from, bytes);
        comm->counts.at[DMA_COUNT_bytes_cores] += bytes;
    }
}

static dma_status_t self_advance(dma_comm_t *comm, dma_task_t *task)
{
    dma_task_set_running(task);
    dma_comm_count(comm, DMA_COUNT_calls_self);
    if (task->memory) {
        return task->memory->copy_own(task);
    }
    copy_own_block(comm, &task->run);
    return DMA_OK;
}

const dma_route_t dma_route_self = {
    .name = "self",
    .uses_device_memory = true,
    .setup_begin = self_setup_begin,
    .setup_advance = self_setup_advance,
    .advance = self_advance,
};
