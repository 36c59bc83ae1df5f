/*
 * Memory of the host that kernels of HIP and CUDA can read and write while they run, at the address that the host uses. It is
 * for words that both sides poll.
 *
 * Memory that is given back is kept for the next request and never freed: freeing it waits for the device, whose streams may
 * wait for this library.
 */
#ifndef MPIX_MAPPED_H
#define MPIX_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The runtime that the program uses with these buffers: MPIX_QUEUE_CUDA if the thread has a context of CUDA, MPIX_QUEUE_HIP if
 * one of the buffers is memory of HIP, otherwise MPIX_QUEUE_THREAD.
 */
int mpix_mapped_type(const void *one, const void *other);

/*
 * All bytes are zero. NULL: no memory. `mapped` is false if kernels of the runtime cannot use it; with MPIX_DMA_VERBOSE=1 a line
 * on stderr says why.
 */
void *mpix_mapped_alloc(int type, size_t bytes, bool *mapped);
void mpix_mapped_free(void *memory);

#endif
