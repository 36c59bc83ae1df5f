/* A channel, for who carries out its starts: see channel.c. */
#ifndef DMA_CORE_CHANNEL_H
#define DMA_CORE_CHANNEL_H

#include "core/comm.h"

struct dma_channel {
    dma_comm_t *comm;
    dma_call_t call;
    dma_task_t task;
    dma_done_t done;
    void *arg;
    void *arrays;
    void *numbers; /* copies of datatypes, counts and displacements */
    bool resolved; /* the task is resolved, and every start uses it as it is */
};

#endif
