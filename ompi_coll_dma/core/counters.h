/* Counting in the core and its routes: see dma/counters.h. */
#ifndef DMA_CORE_COUNTERS_H
#define DMA_CORE_COUNTERS_H

#include "dma/counters.h"

/* How a call was made: where its counters begin. */
enum {
    DMA_COUNT_BLOCKING = DMA_COUNT_calls_blocking_allgather,
    DMA_COUNT_NONBLOCKING = DMA_COUNT_calls_nonblocking_allgather,
    DMA_COUNT_PERSISTENT = DMA_COUNT_calls_persistent_allgather,
};

/* A communicator begins to count, and its members have been set. */
void dma_comm_counts_begin(dma_comm_counts_t *counts, dma_counters_t *counters);
/* It ends. Its counts are added to those of its parent, whose lock the caller holds, or to those of the process (NULL). */
void dma_comm_counts_end(dma_comm_counts_t *counts, dma_counters_t *counters, dma_comm_counts_t *parent);

#endif
