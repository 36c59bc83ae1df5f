/* What rank 0 decides for all ranks: see choices.h. */
#include "core/setup/choices.h"

#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 400

typedef struct listener {
    dma_choices_wrong_t wrong;
    void *arg;
} listener_t;

/* The variant of this name, or -1: the cost model chooses. */
static int32_t find_variant(const listener_t *to, const char *name, bool gpu)
{
    int v = dma_variant_find(name);
    char text[TEXT_BYTES];

    if (!name[0] || !strcmp(name, "auto")) {
        return -1;
    }
    if (v >= 0 && dma_variants[v]->gpu != gpu) {
        v = -1;
    }
    if (v < 0) {
        snprintf(text, sizeof(text), "there is no variant \"%s\"%s; the cost model chooses instead", name,
                 gpu ? " for device memory" : "");
        to->wrong(to->arg, gpu ? "gpu_variant" : "variant", text);
    }
    return v;
}

static void refuse_profile(const listener_t *to, const char *topic, const char *path, const char *error)
{
    char text[TEXT_BYTES];

    snprintf(text, sizeof(text), "the engine profile %.200s cannot be used (%s); the built-in one is used instead",
             path, error);
    to->wrong(to->arg, topic, text);
}

void dma_choices_make(dma_choices_t *choices, const dma_params_t *params, dma_choices_wrong_t wrong, void *arg)
{
    const listener_t to = {.wrong = wrong, .arg = arg};
    char error[128];

    choices->profile = dma_profile_default();
    choices->measure = params->measure && !params->profile;
    if (params->profile && dma_profile_load(params->profile, &choices->profile, error, sizeof(error)) != DMA_OK) {
        refuse_profile(&to, "profile", params->profile, error);
    }
    choices->gpu_profile = dma_gpu_profile_default();
    if (params->gpu_profile &&
        dma_gpu_profile_load(params->gpu_profile, &choices->gpu_profile, error, sizeof(error)) != DMA_OK) {
        refuse_profile(&to, "gpu_profile", params->gpu_profile, error);
    }
    choices->cross_memory = params->cross_memory != 0;
    choices->forced = find_variant(&to, params->variant, false);
    choices->gpu_forced = find_variant(&to, params->gpu_variant, true);
    choices->gpu_queues = params->gpu_queues;
}

dma_plan_req_t dma_choices_request(const dma_choices_t *choices, const dma_profile_t *profile, int nranks, bool cross,
                                   uint32_t ranks_per_core_x16, const dma_geom_t *geom)
{
    return (dma_plan_req_t){
        .nranks = nranks,
        .cross_memory = cross && choices->cross_memory,
        .ranks_per_core_x16 = ranks_per_core_x16,
        .geom = *geom,
        .head = dma_profile_head(profile, (uint64_t)geom->pair_bytes * (uint64_t)(nranks - 1)),
    };
}
