/*
 * Is host memory of a runtime still there? cudaDeviceReset and hipDeviceReset free all that the device had, also what this library
 * keeps for later. Then nobody may touch it: it is not mapped, or the program has allocated it anew.
 */
#ifndef MPIX_PINNED_H
#define MPIX_PINNED_H

#include <stdbool.h>
#include <stdint.h>

/* What the runtime says of memory. 0: it says nothing. */
typedef struct mpix_pinned {
    uint64_t there; /* the device's address */
    uint64_t id;    /* no other allocation of the process has it, before or after */
} mpix_pinned_t;

/* The program has loaded the runtime. `type`: MPIX_QUEUE_HIP or MPIX_QUEUE_CUDA. */
mpix_pinned_t mpix_pinned_look(int type, void *memory);
/* Does the runtime say the same as when the memory was allocated? */
bool mpix_pinned_is(int type, void *memory, mpix_pinned_t allocated);

#endif
