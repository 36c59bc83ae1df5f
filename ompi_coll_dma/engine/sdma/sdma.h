/* The engine for the SDMA queues of AMD GPUs: see engine.c. */
#ifndef DMA_SDMA_SDMA_H
#define DMA_SDMA_SDMA_H

#include "engine/gpu.h"

/* Queues that the driver provides per SDMA engine, for all processes of the node together. */
#define DMA_SDMA_QUEUES_PER_ENGINE 8

extern const dma_gpu_engine_t dma_gpu_engine_sdma;

#endif
