/*
 * Streams for the tests of queues: of HIP, of CUDA, or of the library that stands in for CUDA (fake_cuda.c), found at run
 * time. A kernel of a test is a function of the host that the stream runs in its order, or a copy in the stream.
 */
#ifndef TEST_MPIX_GPU_H
#define TEST_MPIX_GPU_H

#include <mpix_dma.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct gpu_table {
    int type; /* MPIX_QUEUE_*; MPIX_QUEUE_THREAD: there is no device */
    int (*alloc)(void **memory, size_t bytes);
    int (*release)(void *memory);
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
    /* Of the stand-in, otherwise NULL. */
    int (*fake_synchronizations)(void);
    void (*fake_break)(void *stream);
    void (*fake_refuse)(int refuse);
} gpu_table_t;
extern gpu_table_t gpu;

/* "thread", "hip" or "cuda": the device of this rank is the current one then. Ends the job if there is none. */
void gpu_open(const char *name, int rank);
/* Makes it the current one of this thread, too. */
void gpu_enter(void);
void gpu_must(int error, const char *what);
/* In the order of the stream; either end may be in memory of the host. */
void gpu_copy(void *to, const void *from, size_t bytes, void *stream);

#endif
