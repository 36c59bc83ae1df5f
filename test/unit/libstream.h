/* Jobs whose ranks have only the stream engine, on a fake runtime. */
#ifndef DMA_LIBSTREAM_H
#define DMA_LIBSTREAM_H

#include "libgpu_fake.h"
#include "libthreads.h"

/* Starts the fake runtime with as many devices as it can have. Streams are late by at most this time. */
dma_gpu_runtime_t *stream_machine(unsigned late_us);

/* `own_copy` is the parameter's value. */
job_t stream_job(int n, void (*body)(rank_t *), dma_gpu_runtime_t *rt, const char *own_copy);

/* The body of a rank, or a part of it: all-gathers in device memory, with right data. */
void stream_gathers(rank_t *r, int calls, uint64_t bytes);

#endif
