/*
 * Streams of HIP and CUDA, as far as a queue needs them. The runtime is the one that the program has loaded.
 *
 * A stream has two words in memory of the host that the device reads and writes. An asynchronous stream stores to `reached`
 * when it comes to a start, and waits for `done` at a waitall. Numbers are compared by their lower 32 bits, because CUDA's
 * operations on 64 bits are not everywhere; no queue has 2^31 operations that are not carried out.
 *
 * A stream that waits holds one of the few queues that runtime and device have for all streams of the process: connections
 * (CUDA: 8, or 2 under MPS) or hardware queues (HIP: 4). If the runtime puts a stream of MPI's into the same one, MPI's copies
 * stand behind the wait, and the wait is for them: nothing ever ends. CUDA chooses a connection with the least work, so this
 * needs more busy streams than connections; HIP chooses when it makes the stream. Nobody can ask which was chosen. So only as
 * many streams wait as MPIX_DMA_WAITING_STREAMS says, by default a quarter of CUDA_DEVICE_MAX_CONNECTIONS if that is 16 or more.
 * For the others the host waits.
 */
#ifndef MPIX_STREAM_H
#define MPIX_STREAM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct mpix_words {
    struct mpix_words *next;
    int type, device;
    uint64_t *reached, *done;           /* as the host sees them */
    uint64_t reached_there, done_there; /* as the device does */
    uint64_t number;                    /* where the numbers of the next queue go on */
} mpix_words_t;

typedef struct mpix_stream {
    int type; /* MPIX_QUEUE_* */
    void *handle;
    int device;          /* HIP: the current one when the queue was made */
    void *context;       /* CUDA: the same */
    mpix_words_t *words; /* NULL: the host waits instead */
} mpix_stream_t;

/* A function of a runtime, and the pointer that it goes to. */
typedef struct mpix_symbol {
    const char *name;
    void *to;
    bool required;
} mpix_symbol_t;

/* Fills the table from the runtime of this type that the program has loaded. False: there is none. */
bool mpix_runtime_fill(int type, const mpix_symbol_t *symbols);

/* `allowed`: a thread of the library can carry out what the stream waits for. An MPI error class. */
int mpix_stream_open(mpix_stream_t *stream, int type, void *handle, bool allowed);
/* `number`: of the last operation; all have been carried out. `failed`: the stream has. */
void mpix_stream_close(mpix_stream_t *stream, uint64_t number, bool failed);

/* These put an operation into the stream: a store of the number to `reached`, and a wait for `done`. An MPI error class. */
int mpix_stream_signal(const mpix_stream_t *stream, uint64_t number);
int mpix_stream_gate(const mpix_stream_t *stream, uint64_t number);
/* The host waits for the stream. */
int mpix_stream_synchronize(const mpix_stream_t *stream);
/* The stream has failed, and will not get anywhere. */
bool mpix_stream_has_failed(const mpix_stream_t *stream);

bool mpix_stream_has_reached(const mpix_stream_t *stream, uint64_t number);
void mpix_stream_release(const mpix_stream_t *stream, uint64_t number);
/* No stream: only the current device of this runtime, for mpix_stream_enter. */
void mpix_stream_here(mpix_stream_t *stream, int type);
/* Makes its device the calling thread's current one, which must be a thread of ours. */
void mpix_stream_enter(const mpix_stream_t *stream);

#endif
