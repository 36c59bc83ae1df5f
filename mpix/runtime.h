/*
 * The calls of HIP and of CUDA's driver that this library makes, in one table. The program has loaded the runtime.
 *
 * Each row: our name, the name in HIP and in CUDA (NULL: it has no such call), whether it is required, parameters. All return 0 or
 * an error. What the two have alike has one row.
 */
#ifndef MPIX_RUNTIME_H
#define MPIX_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define MPIX_CALLS(X)                                                                                                  \
    X(synchronize, "hipStreamSynchronize", "cuStreamSynchronize", true, void *stream)                                  \
    X(query, "hipStreamQuery", "cuStreamQuery", true, void *stream)                                                    \
    X(flags, "hipStreamGetFlags", "cuStreamGetFlags", false, void *stream, unsigned *flags)                            \
    X(capturing, "hipStreamIsCapturing", "cuStreamIsCapturing", false, void *stream, int *status)                      \
    X(host_alloc, "hipHostMalloc", "cuMemHostAlloc", false, void **memory, size_t bytes, unsigned flags)               \
    X(host_free, "hipHostFree", "cuMemFreeHost", false, void *memory)                                                  \
    X(address, "hipHostGetDevicePointer", "cuMemHostGetDevicePointer_v2", false, uint64_t *there, void *memory,        \
      unsigned flags)                                                                                                  \
    X(attribute, "hipPointerGetAttribute", "cuPointerGetAttribute", false, void *data, int attribute, void *memory)    \
    X(get_device, "hipGetDevice", NULL, true, int *device)                                                             \
    X(set_device, "hipSetDevice", NULL, true, int device)                                                              \
    X(attributes, "hipPointerGetAttributes", NULL, true, void *attributes, const void *memory)                         \
    X(last_error, "hipGetLastError", NULL, true, void)                                                                 \
    X(signal_alloc, "hipExtMallocWithFlags", NULL, false, void **memory, size_t bytes, unsigned flags)                 \
    X(signal_free, "hipFree", NULL, false, void *memory)                                                               \
    X(write64, "hipStreamWriteValue64", NULL, false, void *stream, void *word, uint64_t value, unsigned flags)         \
    X(wait64, "hipStreamWaitValue64", NULL, false, void *stream, void *word, uint64_t value, unsigned flags,           \
      uint64_t mask)                                                                                                   \
    X(get_context, NULL, "cuCtxGetCurrent", true, void **context)                                                      \
    X(set_context, NULL, "cuCtxSetCurrent", true, void *context)                                                       \
    X(write32, NULL, "cuStreamWriteValue32_v2", false, void *stream, uint64_t word, uint32_t value, unsigned flags)    \
    X(wait32, NULL, "cuStreamWaitValue32_v2", false, void *stream, uint64_t word, uint32_t value, unsigned flags)

#define MPIX_MEMBER(name, hip, cuda, required, ...) int (*name)(__VA_ARGS__);
typedef struct mpix_runtime {
    MPIX_CALLS(MPIX_MEMBER)
} mpix_runtime_t;

/* `type`: MPIX_QUEUE_HIP or MPIX_QUEUE_CUDA. NULL: the program has not loaded it, or it lacks a required call. */
const mpix_runtime_t *mpix_runtime(int type);

/* With MPIX_DMA_VERBOSE: a line on stderr, "WHAT, because WHY". */
void mpix_tell(const char *what, const char *why);

#endif
