/* Selection of a queue provider: see provider.h. */
#include "engine/sdma/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dma_provider_ops_t *const dma_providers[] = {&dma_provider_rocr, &dma_provider_thunk, &dma_provider_kfd, NULL};

void dma_provider_add_reason(char *why, const char *name, const char *reason)
{
    size_t have = strlen(why);

    snprintf(why + have, DMA_PROVIDER_WHY_BYTES - have, "%s%s: %s", have ? "; " : "", name, reason);
}

dma_provider_search_t dma_provider_search(const dma_provider_ops_t *const *list, const char *wanted,
                                          const dma_provider_gpu_t *gpu, char *why)
{
    static const dma_provider_ops_t *const none[] = {NULL};
    bool any = !wanted || !wanted[0] || !strcmp(wanted, "auto");
    const char *switched = getenv("HSA_ENABLE_SDMA");
    bool off = switched && !strcmp(switched, "0");

    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s", off ? "HSA_ENABLE_SDMA=0 in the environment" : "");
    return (dma_provider_search_t){.list = off ? none : list, .wanted = any ? NULL : wanted, .gpu = gpu, .why = why};
}

/* Opens a provider in the first round. Remembers it for the second one if its queues cannot name engines. */
static bool open_naming(dma_provider_search_t *s, uint32_t index, dma_provider_t **provider)
{
    const dma_provider_ops_t *ops = s->list[index];
    char reason[DMA_PROVIDER_WHY_BYTES];

    if (ops->open(s->gpu, provider, reason) != DMA_OK) {
        dma_provider_add_reason(s->why, ops->name, reason);
        return false;
    }
    if ((*provider)->names_engines) {
        return true;
    }
    (*provider)->ops->close(*provider);
    if (s->gpu->by_number) {
        dma_provider_add_reason(s->why, ops->name, "it cannot name engines, and some are not there");
    } else {
        s->unnamed |= UINT32_C(1) << index;
    }
    return false;
}

static bool open_unnamed(dma_provider_search_t *s, uint32_t index, dma_provider_t **provider)
{
    const dma_provider_ops_t *ops = s->list[index];
    char reason[DMA_PROVIDER_WHY_BYTES];

    if (!(s->unnamed >> index & 1)) {
        return false;
    }
    if (ops->open(s->gpu, provider, reason) != DMA_OK) {
        dma_provider_add_reason(s->why, ops->name, reason);
        return false;
    }
    return true;
}

static bool is_refused(dma_provider_search_t *s, const char *name)
{
    char reason[DMA_PROVIDER_WHY_BYTES];

    if (!s->gpu->refuses || !s->gpu->refuses(s->gpu->refuses_arg, name, reason)) {
        return false;
    }
    if (s->round == 0) {
        dma_provider_add_reason(s->why, name, reason);
    }
    return true;
}

dma_status_t dma_provider_open(dma_provider_search_t *s, dma_provider_t **provider)
{
    for (; s->round < 2; s->round++, s->next = 0) {
        while (s->list[s->next]) {
            uint32_t index = s->next++;

            if ((s->wanted && strcmp(s->wanted, s->list[index]->name)) || is_refused(s, s->list[index]->name)) {
                continue;
            }
            if (s->round == 0 ? open_naming(s, index, provider) : open_unnamed(s, index, provider)) {
                return DMA_OK;
            }
        }
    }
    if (!s->why[0]) {
        snprintf(s->why, DMA_PROVIDER_WHY_BYTES, "%s: \"%.60s\"", "there is no queue provider of this name", s->wanted);
    }
    return DMA_UNSUPPORTED;
}
