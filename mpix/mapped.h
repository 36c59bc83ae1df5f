/*
 * Host memory that kernels of HIP and CUDA can read and write while they run, at the same address as the host. It is for words
 * that host and kernels poll.
 *
 * mpix_mapped_free keeps the memory for the next request. The runtime never frees it, because that would wait for the device,
 * whose streams may wait for this library. A reset of the device may free it; then it is forgotten (pinned.h).
 */
#ifndef MPIX_MAPPED_H
#define MPIX_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The runtime whose kernels may use these buffers: MPIX_QUEUE_CUDA if the thread has a CUDA context, MPIX_QUEUE_HIP if one of
 * the buffers is HIP memory, otherwise MPIX_QUEUE_THREAD.
 */
int mpix_mapped_type(const void *one, const void *other);

/*
 * All bytes are zero. NULL: no memory. *mapped is false if kernels of the runtime cannot use the memory; with
 * MPIX_DMA_VERBOSE=1 a line on stderr says why.
 */
void *mpix_mapped_alloc(int type, size_t bytes, bool *mapped);
void mpix_mapped_free(void *memory);

#endif
