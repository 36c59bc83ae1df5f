/*
 * Evictions. The driver removes all queues of a process from the engines for some time if pages that GPUs access are moved or
 * unmapped (registered host memory, memory with attributes), or if other clients need the memory of a GPU. Then it restores
 * them. The process is not informed: all its queues stop at the same time, including those of the runtime. Doorbells, and words
 * that a POLL waits for, take effect afterwards if they are written during an eviction.
 *
 * On this node evictions happen at random (EMU_EVICT), because most causes are outside the process. Copies under way stop, too.
 * A real engine would end them first, and no program can see the difference.
 */
#ifndef EMU_EVICT_H
#define EMU_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct emu_evict {
    uint64_t every_ns; /* average time from the end of an eviction to the next one; 0: never */
    uint64_t most_ns;  /* the longest eviction */
    uint64_t random;   /* state of the random numbers */
    uint64_t next, until;
    unsigned count;
};

/* Returns whether the queues of the process are evicted at this time, which must not be earlier than in the last call. */
bool emu_evicted(struct emu_evict *evict, uint64_t now);

#endif
