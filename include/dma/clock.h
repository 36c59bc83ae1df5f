/* The clock for time limits: monotonic, so changes of the system time do not affect it. */
#ifndef DMA_CLOCK_H
#define DMA_CLOCK_H

#include <time.h>

/* Current time in seconds. */
static inline double dma_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
