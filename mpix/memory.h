/*
 * Host memory that streams and kernels of HIP and CUDA read and write while they run:
 *
 *     for kernels     one place, which has the same address for the host and for the device: words that both poll
 *     for a stream    two places of a word each, which keep their last value from one owner to the next
 *
 * What is given back is kept for the next who asks. The runtime never frees it, because that would wait for the device, whose
 * streams may wait for this library. A reset of the device may free it. Then nobody may touch it: it is not mapped, or the program
 * has allocated it anew. So memory is used again only if the runtime says the same of it as when it was allocated.
 */
#ifndef MPIX_MEMORY_H
#define MPIX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mpix_place {
    void *at;       /* the host's address */
    uint64_t there; /* the device's; 0: the runtime does not say */
    uint64_t id;    /* no other allocation of the process has it, before or after; 0: likewise */
} mpix_place_t;

typedef struct mpix_memory {
    struct mpix_memory *next;
    int type, device; /* MPIX_QUEUE_*; -1: of all devices */
    size_t bytes;     /* of place[0]; 0: two words for a stream */
    bool used;
    mpix_place_t place[2];
} mpix_memory_t;

/*
 * The runtime whose kernels may use these buffers: MPIX_QUEUE_CUDA if the thread has a CUDA context, MPIX_QUEUE_HIP if one of
 * the buffers is HIP memory, otherwise MPIX_QUEUE_THREAD.
 */
int mpix_memory_type(const void *one, const void *other);

/* All bytes are zero. NULL: no memory. If kernels of the runtime cannot use it, its type is MPIX_QUEUE_THREAD, and with
 * MPIX_DMA_VERBOSE=1 a line on stderr says why. */
mpix_memory_t *mpix_memory_for_kernels(int type, size_t bytes);
/* HIP: for the device that is current. NULL: no memory. */
mpix_memory_t *mpix_memory_for_stream(int type, int device);
/* NULL: nothing. */
void mpix_memory_give_back(mpix_memory_t *memory);

#endif
