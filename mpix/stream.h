/*
 * Streams of HIP and CUDA, as far as a queue needs them. The runtime is the one that the program has loaded.
 *
 * An asynchronous stream has two words in host memory that the device reads and writes. The stream stores to `reached` at a
 * start, and waits for `done` at a waitall. Only the lower 32 bits of numbers are compared, because some devices lack CUDA's
 * 64-bit operations. A queue never has 2^31 operations that are not complete, so this is enough.
 *
 * The library's thread submits MPI's copies after the stream has begun to wait for them. Two things can prevent that, and then
 * the program hangs:
 *
 * - A call of the runtime that waits for the whole device, in any thread. CUDA holds a lock meanwhile, so that no other thread
 *   can submit copies. Such calls are cuMemFree, cuMemFreeHost, cuMemHostUnregister, cuIpcCloseMemHandle, and the first launch of
 *   a kernel, which loads it. Many programs and libraries make them.
 * - The device has few queues, which all streams of the process share: connections (CUDA: 8, or 2 under MPS) or hardware queues
 *   (HIP: 4). If the runtime maps a stream of MPI to that of a stream that waits, MPI's copies are behind the wait. CUDA chooses a
 *   connection with the least work, so this needs more busy streams than connections. HIP chooses when it makes the stream.
 *   There is no call that returns the choice.
 *
 * Only the program can know that neither happens. So at most MPIX_DMA_WAITING_STREAMS streams wait at once, by default none. For
 * the others the host waits.
 */
#ifndef MPIX_STREAM_H
#define MPIX_STREAM_H

#include "memory.h"

struct mpix_runtime;

typedef struct mpix_stream {
    int type;                      /* MPIX_QUEUE_* */
    const struct mpix_runtime *rt; /* NULL: MPIX_QUEUE_THREAD */
    void *handle;
    int device;           /* HIP: current when the queue was made */
    void *context;        /* CUDA: current when the queue was made */
    mpix_memory_t *words; /* `reached` and `done`. NULL: the host waits instead */
    uint64_t number;      /* that the words have, and from which the queue continues */
    const char *why;      /* the host waits: why */
} mpix_stream_t;

/* `allowed`: the library has a thread, so the stream may wait for MPI. Returns an MPI error class. */
int mpix_stream_open(mpix_stream_t *stream, int type, void *handle, bool allowed);
/* All operations are complete. `number`: of the last one. `failed`: the stream has failed. */
void mpix_stream_close(mpix_stream_t *stream, uint64_t number, bool failed);

/* Enqueue an operation in the stream: a store of the number to `reached`; a wait until `done` is at least the number. Return an
 * MPI error class. */
int mpix_stream_signal(const mpix_stream_t *stream, uint64_t number);
int mpix_stream_gate(const mpix_stream_t *stream, uint64_t number);
int mpix_stream_synchronize(const mpix_stream_t *stream);
typedef enum mpix_progress { MPIX_STREAM_DONE, MPIX_STREAM_BUSY, MPIX_STREAM_FAILED } mpix_progress_t;
mpix_progress_t mpix_stream_progress(const mpix_stream_t *stream);
bool mpix_stream_is_non_blocking(const mpix_stream_t *stream);
/* Is the stream being captured into a graph? */
bool mpix_stream_is_captured(const mpix_stream_t *stream);

bool mpix_stream_has_reached(const mpix_stream_t *stream, uint64_t number);
void mpix_stream_release(const mpix_stream_t *stream, uint64_t number);
/* Sets `stream` to the current device of this runtime, without a stream, for mpix_stream_enter. */
void mpix_stream_here(mpix_stream_t *stream, int type);
/* Makes its device current in the calling thread, which must be the library's: a thread of the program keeps its own device. */
void mpix_stream_enter(const mpix_stream_t *stream);

#endif
