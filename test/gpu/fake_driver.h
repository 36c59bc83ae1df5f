/*
 * What a test tells the libraries that replace libcuda, libamdhip64 and libhsa-runtime64, and what they have seen.
 *
 * They are shared libraries with the names and calls of the real ones. So finding them, filling the tables from them and
 * reading their answers can be tested, with versions and kinds of memory that no machine at hand has. They know one address
 * range. Each exports its own `fake_driver`.
 */
#ifndef DMA_TEST_GPU_FAKE_DRIVER_H
#define DMA_TEST_GPU_FAKE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct fake_driver {
    int version;
    unsigned error;     /* of pointer queries and of counting devices */
    bool needs_context; /* CUDA: pointer queries fail on a thread without one */
    bool new_handles;   /* CUDA: a context that has been reset comes back with another handle */
    bool full;          /* CUDA: no device has memory left */
    bool reuses;        /* CUDA: after a reset, memory has the addresses that it had before */
    bool closed;        /* HSA: not initialised; CUDA: the driver has shut down */
    bool capturing;     /* some thread captures a stream, in the global mode */
    bool refuses;       /* CUDA: an attribute of memory cannot be set, and host memory cannot be registered */

    uint64_t base, size; /* the memory there is */
    uint64_t type, ordinal, managed, ipc, pool, id;
    bool vmm;                     /* CUDA: answer of the second question */
    bool no_blocks;               /* CUDA: a driver that does not tell physical allocations apart */
    char fails[16];               /* CUDA: this call of virtual memory management is refused; "": none */
    uint32_t hsa_type, hsa_flags; /* HSA: of the allocation */
    uint64_t hsa_agent, hsa_size;

    unsigned queries;   /* the first query about an address, later ones, all calls */
    unsigned retained;  /* primary contexts: how often retained, less releases, and less retains from before a reset */
    unsigned activated; /* primary contexts: how often one became active */
    unsigned objects;   /* CUDA: streams, events, graphs and memory that are alive */
    unsigned adopted;   /* CUDA: attempts to make synchronous copies wait */
    unsigned calls;     /* of HIP: all; of CUDA: those that change the thread's context or capture mode */
    unsigned spoilt;    /* captures invalidated by calls that must not be made during a capture */
    unsigned open_flags, last_error;
    int device; /* HIP: the current one */
} fake_driver_t;

#endif
