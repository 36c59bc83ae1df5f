/*
 * Choices and plans that a communicator keeps.
 *
 * A plan contains no sizes and no addresses, so there is one for each operation, variant, number of queues, and for out
 * of place and in place. It is built at the first call that needs it and kept. The choice of a variant depends on the
 * size of the largest block. It is kept in a hash table with one entry for each hash value; the key is the dma_sign of
 * the call.
 */
#ifndef DMA_CORE_PLANS_H
#define DMA_CORE_PLANS_H

#include "dma/counters.h"
#include "dma/plan.h"
#include "plan/profile.h"

#define DMA_MEMOS 64

/* A multiplicative hash: the `bits` highest bits. */
static inline unsigned dma_plan_hash(uint64_t key, unsigned bits)
{
    return (unsigned)(key * UINT64_C(0x9e3779b97f4a7c15) >> (64 - bits));
}

typedef struct dma_plan_memo {
    uint64_t key; /* 0: empty */
    dma_choice_t choice;
    dma_plan_t *plans[2]; /* by in_place; NULL: not looked up yet */
} dma_plan_memo_t;

typedef struct dma_kept_plan {
    struct dma_kept_plan *next;
    uint32_t variant, queues;
    dma_plan_t *plan;
} dma_kept_plan_t;

typedef struct dma_plan_cache {
    dma_plan_memo_t memos[DMA_MEMOS];
    dma_kept_plan_t *kept;
} dma_plan_cache_t;

/* The entry for a key. It contains the choice only if its `key` is equal. */
static inline dma_plan_memo_t *dma_plan_memo(dma_plan_cache_t *cache, uint64_t key)
{
    return &cache->memos[dma_plan_hash(key, 6)];
}

_Static_assert(DMA_MEMOS == 64, "the hash yields 6 bits");

/* Fills an entry: chooses for `req`. `forced` and `reason` as in dma_plan_choose. */
dma_status_t dma_plan_memo_fill(dma_plan_memo_t *memo, uint64_t key, const dma_profile_t *profile,
                                const dma_plan_req_t *req, int forced, dma_comm_counts_t *counts, const char **reason);
/* Sets memo->plans[req->in_place]: finds the plan of `rank`, or builds and keeps it. */
dma_status_t dma_plan_memo_build(dma_plan_cache_t *cache, dma_plan_memo_t *memo, const dma_plan_req_t *req, int rank,
                                 dma_comm_counts_t *counts);
/* Drops all choices, which are not valid any more. Plans are kept. */
void dma_plan_cache_forget_choices(dma_plan_cache_t *cache);
void dma_plan_cache_free(dma_plan_cache_t *cache);

#endif
