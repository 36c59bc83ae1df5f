/*
 * Streams for the tests of queues: of HIP, of CUDA, or of the fake CUDA (fake_cuda.c). The library is opened at run time. In
 * place of a kernel, tests use a host function or a copy in the stream.
 */
#ifndef TEST_MPIX_GPU_H
#define TEST_MPIX_GPU_H

#include <mpix_dma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

/* For programs with a variable `rank`. */
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d, line %d: not %s\n", rank, __LINE__, #condition);                                 \
            _exit(4);                                                                                                  \
        }                                                                                                              \
    } while (0)

typedef struct gpu_table {
    int type; /* MPIX_QUEUE_*; MPIX_QUEUE_THREAD: no device */
    int (*alloc)(void **memory, size_t bytes);
    int (*release)(void *memory);
    int (*host_alloc)(void **memory, size_t bytes, unsigned flags); /* pinned: copies from and to it return at once */
    int (*host_release)(void *memory);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*synchronize)(void *stream);
    int (*host_function)(void *stream, void (*function)(void *arg), void *arg);
    int (*hip_copy)(void *to, const void *from, size_t bytes, int kind, void *stream);
    int (*cuda_copy)(void *to, const void *from, size_t bytes, void *stream);
    int (*current)(void **context); /* CUDA */
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*stream_wait_event)(void *stream, void *event, unsigned flags);
    /* Functions of the fake CUDA; NULL with a real one. */
    int (*fake_synchronizations)(const void *stream); /* NULL: all */
    void (*fake_break)(void *stream);
    void (*fake_refuse)(int refuse);
} gpu_table_t;
extern gpu_table_t gpu;

/*
 * Initialises MPI, with MPI_THREAD_MULTIPLE or MPI_THREAD_SERIALIZED, and MPI_T as tools do, with MPI_THREAD_SINGLE. In Open MPI 4.1 and
 * 5.0 the latter changes what MPI_Query_thread says. So the library learns the level before, from a queue.
 */
void gpu_begin_mpi(bool multiple);
/* `name`: "thread", "hip" or "cuda". Makes the device of this rank current. Ends the job if there is no device. */
void gpu_open(const char *name, int rank);
/* Makes the device of this rank current in the calling thread. */
void gpu_enter(void);
void gpu_must(int error, const char *what);
/* Copies in the order of the stream. Both addresses may be in host or device memory. */
void gpu_copy(void *to, const void *from, size_t bytes, void *stream);

#endif
