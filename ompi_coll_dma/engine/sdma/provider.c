/* Selection of a queue provider: see provider.h. */
#include "engine/sdma/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dma_provider_ops_t *const dma_providers[] = {&dma_provider_thunk, &dma_provider_kfd, NULL};

/* Appends "; name: reason", as far as there is room. */
static void add(char *why, const char *name, const char *reason)
{
    size_t have = strlen(why);

    snprintf(why + have, DMA_PROVIDER_WHY_BYTES - have, "%s%s: %s", have ? "; " : "", name, reason);
}

static dma_status_t open_one(const dma_provider_ops_t *ops, const dma_provider_gpu_t *gpu, dma_provider_t **provider,
                             char *why)
{
    dma_status_t status = ops->open(gpu, provider, why);

    if (status == DMA_OK && gpu->by_number && !(*provider)->names_engines) {
        (*provider)->ops->close(*provider);
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "it cannot name engines, and some are not there");
        return DMA_UNSUPPORTED;
    }
    return status;
}

dma_status_t dma_provider_open(const dma_provider_ops_t *const *list, const char *wanted, const dma_provider_gpu_t *gpu,
                               dma_provider_t **provider, char *why)
{
    bool any = !wanted || !wanted[0] || !strcmp(wanted, "auto");
    const char *switched = getenv("HSA_ENABLE_SDMA");
    char reason[DMA_PROVIDER_WHY_BYTES];

    why[0] = '\0';
    if (switched && !strcmp(switched, "0")) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "HSA_ENABLE_SDMA=0 in the environment");
        return DMA_UNSUPPORTED;
    }
    for (; *list; list++) {
        if (!any && strcmp(wanted, (*list)->name)) {
            continue;
        }
        if (open_one(*list, gpu, provider, reason) == DMA_OK) {
            return DMA_OK;
        }
        add(why, (*list)->name, reason);
    }
    if (!why[0]) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "there is no queue provider \"%.60s\"", wanted);
    }
    return DMA_UNSUPPORTED;
}
