/* Starts HIP or CUDA, as an application would: coll/dma itself loads no runtime and initialises none. */
#ifndef DMA_TOOLS_GPU_START_H
#define DMA_TOOLS_GPU_START_H

#include "gpu/runtime.h"

/* Loads and initialises a runtime that shows GPUs: "hip", "cuda", or for NULL the first one that does. Returns NULL and
 * sets *rt, or returns why there is none. */
const char *gpu_start(const char *runtime, const dma_gpu_runtime_t **rt);

#endif
