/* The clock that all waiting goes by: nobody sets it. */
#ifndef DMA_CLOCK_H
#define DMA_CLOCK_H

#include <time.h>

/* Seconds. */
static inline double dma_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
