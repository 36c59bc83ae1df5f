/*
 * The engine for the SDMA queues of AMD GPUs: see engine.c. A folder uses those above it.
 *
 *     hw/        packets, generations of engines, rings
 *     node/      the GPUs of the node and their links, and which engine serves which link
 *     queues/    queues from a provider, and their sharing
 *     proof/     what may be used: the record, trials, the self-test
 *     run/       plans as packets: lowering, arming, partitions; whether a run moves
 */
#ifndef DMA_SDMA_SDMA_H
#define DMA_SDMA_SDMA_H

#include "engine/gpu.h"

/* Queues that the driver provides per SDMA engine, for all processes of the node together. */
#define DMA_SDMA_QUEUES_PER_ENGINE 8

extern const dma_gpu_engine_t dma_gpu_engine_sdma;

#endif
