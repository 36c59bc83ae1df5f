/*
 * What rank 0 decides for all ranks of a communicator of one node: which constants the cost model has, and which variants are
 * forced. And what the cost model is asked with: coll_dma_info predicts with the same functions.
 */
#ifndef DMA_CORE_SETUP_CHOICES_H
#define DMA_CORE_SETUP_CHOICES_H

#include "dma/params.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"

typedef struct dma_choices {
    dma_profile_t profile;
    uint32_t measure; /* constants of the profile are replaced by measured ones (measure.h) */
    int32_t forced;   /* variant for host memory, or -1: the cost model chooses */
    uint32_t cross_memory;
    dma_gpu_profile_t gpu_profile;
    int32_t gpu_forced;
    uint32_t gpu_queues;
} dma_choices_t;

/* Says what is wrong with a parameter, which then has its default. */
typedef void (*dma_choices_wrong_t)(void *arg, const char *topic, const char *text);

void dma_choices_make(dma_choices_t *choices, const dma_params_t *params, dma_choices_wrong_t wrong, void *arg);

/* What all requests of a communicator have in common. `cross`: every pair of ranks can read each other's memory; `profile`:
 * with what has been measured. */
dma_plan_req_t dma_choices_request(const dma_choices_t *choices, const dma_profile_t *profile, int nranks, bool cross,
                                   uint32_t ranks_per_core_x16, const dma_geom_t *geom);

#endif
