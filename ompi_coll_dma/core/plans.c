/* Choices and plans that a communicator keeps: see plans.h. */
#include "core/plans.h"

#include <stdlib.h>
#include <string.h>

dma_status_t dma_plan_memo_fill(dma_plan_memo_t *memo, uint64_t key, const dma_profile_t *profile,
                                const dma_plan_req_t *req, int forced, dma_comm_counts_t *counts, const char **reason)
{
    dma_choice_t choice;
    dma_status_t status = dma_plan_choose(profile, req, forced, &choice, reason);

    counts->at[DMA_COUNT_plans_chosen]++;
    if (status == DMA_OK) {
        *memo = (dma_plan_memo_t){.key = key, .choice = choice};
    }
    return status;
}

static dma_plan_t *find(const dma_plan_cache_t *cache, const dma_plan_memo_t *memo, const dma_plan_req_t *req)
{
    for (const dma_kept_plan_t *k = cache->kept; k; k = k->next) {
        if (k->variant == memo->choice.variant && k->queues == memo->choice.queues && k->plan->coll == req->coll &&
            k->plan->in_place == req->in_place) {
            return k->plan;
        }
    }
    return NULL;
}

dma_status_t dma_plan_memo_build(dma_plan_cache_t *cache, dma_plan_memo_t *memo, const dma_plan_req_t *req, int rank,
                                 dma_comm_counts_t *counts)
{
    dma_plan_t *plan = find(cache, memo, req);
    dma_kept_plan_t *kept;
    dma_status_t status;

    if (!plan) {
        if (!(kept = malloc(sizeof(*kept)))) {
            return DMA_ERR_NOMEM;
        }
        if ((status = dma_plan_build(req, &memo->choice, rank, &plan)) != DMA_OK) {
            free(kept);
            return status;
        }
        *kept = (dma_kept_plan_t){
            .next = cache->kept, .variant = memo->choice.variant, .queues = memo->choice.queues, .plan = plan};
        cache->kept = kept;
        counts->at[DMA_COUNT_plans_built]++;
    }
    memo->plans[req->in_place] = plan;
    return DMA_OK;
}

void dma_plan_cache_forget_choices(dma_plan_cache_t *cache)
{
    memset(cache->memos, 0, sizeof(cache->memos));
}

void dma_plan_cache_free(dma_plan_cache_t *cache)
{
    for (dma_kept_plan_t *k = cache->kept, *next; k; k = next) {
        next = k->next;
        dma_plan_free(k->plan);
        free(k);
    }
    cache->kept = NULL;
}
