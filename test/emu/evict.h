/*
 * Evictions: the driver takes all queues of a process from the engines for a while, when pages that GPUs reach are moved or
 * given back (registered host memory, memory with attributes), and when other clients want the memory of a GPU. Then it puts
 * them back. Nobody is told: to a program its queues stand still, all at once, those of the runtime too. What is written
 * meanwhile, doorbells and words that a POLL waits for, counts afterwards.
 *
 * Here they come at random (EMU_EVICT), because most of their causes are outside of the process. A copy that is under way stands
 * still as well, which an engine would end first: nobody can tell.
 */
#ifndef EMU_EVICT_H
#define EMU_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct emu_evict {
    uint64_t every_ns; /* on average from one's end to the next, 0: never */
    uint64_t most_ns;  /* one lasts at most so long */
    uint64_t random;   /* what depends on the seed */
    uint64_t next, until;
    unsigned count;
};

/* Whether the process's queues are off the engines at this time; time never goes back. */
bool emu_evicted(struct emu_evict *evict, uint64_t now);

#endif
