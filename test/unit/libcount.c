/* The counters of all ranks of a job: see libthreads.h. */
#include "libthreads.h"

dma_counters_t threads_counters = DMA_COUNTERS_INIT;

unsigned long reasons_count(dma_reason_t reason)
{
    return dma_counters_read(&threads_counters, DMA_COUNT_REASON + (int)reason, NULL);
}
