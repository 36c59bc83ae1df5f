/* The counters of all ranks of a job: see libthreads.h. */
#include "libthreads.h"

dma_counters_t threads_counters = DMA_COUNTERS_INIT;

unsigned long counts_sum(int which)
{
    return dma_counters_read(&threads_counters, which, NULL);
}

unsigned long reasons_count(dma_reason_t reason)
{
    return counts_sum(DMA_COUNT_REASON + (int)reason);
}
