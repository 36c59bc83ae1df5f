/* The engine for any GPU whose runtime has streams: see engine.c. */
#ifndef DMA_STREAM_STREAM_H
#define DMA_STREAM_STREAM_H

#include "engine/gpu.h"

extern const dma_gpu_engine_t dma_gpu_engine_stream;

#endif
