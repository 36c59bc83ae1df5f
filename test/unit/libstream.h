/* Jobs whose ranks have the stream engine alone, on a fake runtime. */
#ifndef DMA_LIBSTREAM_H
#define DMA_LIBSTREAM_H

#include "libgpu_fake.h"
#include "libthreads.h"

/* Starts the fake runtime, with as many devices as it has, and streams that are late by at most so much. */
dma_gpu_runtime_t *stream_machine(unsigned late_us);

/* `own_copy` is the parameter's value. */
job_t stream_job(int n, void (*body)(rank_t *), dma_gpu_runtime_t *rt, const char *own_copy);

#endif
