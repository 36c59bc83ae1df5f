/* What the two tables of runtime calls have in common. */
#ifndef DMA_GPU_INTERNAL_H
#define DMA_GPU_INTERNAL_H

#include "gpu/base.h"
#include "gpu/runtime.h"

/*
 * Devices of a process for which the tables keep state. Calls for a device with a higher ordinal return DMA_UNSUPPORTED.
 * The largest node known has 64 visible devices: eight GPUs in eight partitions each.
 */
#define DMA_GPU_MAX_DEVICES 64

/* Return the vendor's table, or NULL if that runtime is not loaded or not usable. The caller serializes the calls. */
const dma_gpu_runtime_t *dma_gpu_hip_open(void);
const dma_gpu_runtime_t *dma_gpu_cuda_open(void);

#endif
