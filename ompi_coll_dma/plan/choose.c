/*
 * The choice of a variant: a pure function, in integers, of facts that are equal on all ranks. So every rank makes
 * the same choice.
 */
#include "plan/profile.h"

uint64_t dma_profile_best_chunk(uint64_t (*cost_of)(const dma_profile_t *, const dma_plan_req_t *, uint64_t chunk),
                                const dma_profile_t *profile, const dma_plan_req_t *req, uint32_t least, uint32_t most,
                                uint32_t *chunk)
{
    uint64_t best = UINT64_MAX;

    *chunk = 0;
    for (uint64_t c = least; c <= most; c *= 2) {
        uint64_t t = cost_of(profile, req, c);

        if (t < best || !*chunk) {
            best = t;
            *chunk = (uint32_t)c;
        }
    }
    return best;
}

dma_status_t dma_plan_choose(const dma_profile_t *profile, const dma_plan_req_t *req, int forced, dma_choice_t *choice,
                             const char **reason)
{
    dma_choice_t best = {.cost_ps = UINT64_MAX};
    const char *why = "no variant does this operation";
    bool found = false;

    *reason = NULL;
    for (int i = 0; dma_variants[i]; i++) {
        const dma_variant_t *v = dma_variants[i];
        dma_choice_t c = {.variant = (uint32_t)i};
        const char *unfit;

        if (!dma_coll_is_served(req->coll, v->serves) || v->gpu != (req->gpu != NULL)) {
            if (i == forced) {
                *reason = "it does not do this operation";
            }
            continue;
        }
        if ((unfit = v->unfit(req))) {
            why = unfit;
            if (i == forced) {
                *reason = unfit;
            }
            continue;
        }
        c.cost_ps = v->cost(profile, req, &c);
        if (i == forced) {
            *choice = c;
            return DMA_OK;
        }
        if (!found || c.cost_ps < best.cost_ps) {
            best = c;
            found = true;
        }
    }
    if (!found) {
        *reason = why;
        return DMA_UNSUPPORTED;
    }
    *choice = best;
    return DMA_OK;
}

dma_status_t dma_plan_build(const dma_plan_req_t *req, const dma_choice_t *choice, int rank, dma_plan_t **plan)
{
    dma_plan_req_t chosen = *req;
    dma_status_t status;

    chosen.queues = choice->queues;
    status = dma_variants[choice->variant]->build(&chosen, rank, plan);
    if (status == DMA_OK) {
        (*plan)->variant = choice->variant;
        (*plan)->gpu = dma_variants[choice->variant]->gpu;
    }
    return status;
}
