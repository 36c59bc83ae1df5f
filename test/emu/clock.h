/* The clock of the node's engines and clock counters: nanoseconds; GPU counters run at 100 MHz. */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include <stdint.h>
#include <time.h>

#define EMU_CLOCK_GPU_NS 10

static inline uint64_t emu_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
