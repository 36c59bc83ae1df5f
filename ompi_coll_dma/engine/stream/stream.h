/* The engine of any GPU with a stream runtime, as others see it: engine.c. */
#ifndef DMA_STREAM_STREAM_H
#define DMA_STREAM_STREAM_H

#include "engine/gpu.h"

extern const dma_gpu_engine_t dma_gpu_engine_stream;

#endif
