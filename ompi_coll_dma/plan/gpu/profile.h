/*
 * The profile of GPUs' DMA engines: the constants of the cost model in cost.h.
 *
 * The file has the format of plan/fields.h. The defaults are for 8 MI300X: tools/fit_gpu has fitted twelve of them to
 * published measurements. The measurements are ratios, so link_mbps sets the scale. own_mbps is an assumption.
 * docs/dev/cost-model.md says how accurate the model is.
 */
#ifndef DMA_PLAN_GPU_PROFILE_H
#define DMA_PLAN_GPU_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "dma/status.h"

/* X(name, default, description) */
#define DMA_GPU_PROFILE_FIELDS(X)                                                                                      \
    X(build_ps, 58300, "writing one packet and its completion into a ring")                                            \
    X(doorbell_ps, 567000, "each queue: write pointer and doorbell")                                                   \
    X(fetch_ps, 1200000, "from a doorbell to the engine's having its first packet")                                    \
    X(trigger_ps, 3180000, "prelaunched: from the store to the engine's having seen it")                               \
    X(armed_ps, 99500, "prelaunched: each queue that polls")                                                           \
    X(first_ps, 1580000, "start of the first copy of a queue")                                                         \
    X(packet_ps, 362000, "each further packet of a queue")                                                             \
    X(fence_ps, 1950000, "an engine writes a completion")                                                              \
    X(observe_ps, 43100, "a processor sees one completion")                                                            \
    X(link_mbps, 48000, "one engine copies over one link")                                                             \
    X(chain_mbps, 47700, "one engine copies over several links, one after another")                                    \
    X(bcst_mbps, 40100, "one engine writes broadcasts, both copies counted")                                           \
    X(swap_mbps, 51700, "one engine swaps, both ways counted")                                                         \
    X(own_mbps, 48000, "one engine copies within its GPU: assumed, not measured")

typedef struct dma_gpu_profile {
#define DMA_GPU_PROFILE_MEMBER(name, value, help) uint64_t name;
    DMA_GPU_PROFILE_FIELDS(DMA_GPU_PROFILE_MEMBER)
#undef DMA_GPU_PROFILE_MEMBER
} dma_gpu_profile_t;

/* The built-in profile, for MI300X. */
dma_gpu_profile_t dma_gpu_profile_default(void);

/* Reads a file, as dma_profile_load. */
dma_status_t dma_gpu_profile_load(const char *path, dma_gpu_profile_t *profile, char *error, size_t error_bytes);

#endif
