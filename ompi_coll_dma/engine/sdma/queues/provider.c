/* Whether a queue provider may be used: see provider.h. */
#include "engine/sdma/queues/provider.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const dma_provider_ops_t *const dma_providers[] = {&dma_provider_rocr, &dma_provider_kfd, NULL};

void dma_provider_add_reason(char *why, const char *name, const char *reason)
{
    size_t have = strlen(why);

    snprintf(why + have, DMA_PROVIDER_WHY_BYTES - have, "%s%s: %s", have ? "; " : "", name, reason);
}

static bool is_other(const char *wanted, const char *name)
{
    return wanted && wanted[0] && strcmp(wanted, "auto") != 0 && strcmp(wanted, name) != 0;
}

dma_status_t dma_provider_open(const dma_provider_ops_t *ops, const char *wanted, const dma_provider_gpu_t *gpu,
                               dma_provider_t **provider, char *why)
{
    const char *switched = getenv("HSA_ENABLE_SDMA");
    char reason[DMA_PROVIDER_WHY_BYTES] = "";

    if (is_other(wanted, ops->name)) {
        return DMA_UNSUPPORTED;
    }
    if (switched && !strcmp(switched, "0")) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "HSA_ENABLE_SDMA=0 in the environment");
        return DMA_UNSUPPORTED;
    }
    if ((gpu->refuses && gpu->refuses(gpu->refuses_arg, ops->name, reason)) ||
        ops->open(gpu, provider, reason) != DMA_OK) {
        dma_provider_add_reason(why, ops->name, reason);
        return DMA_UNSUPPORTED;
    }
    if (gpu->by_number && !(*provider)->names_engines) {
        (*provider)->ops->close(*provider);
        dma_provider_add_reason(why, ops->name, "it cannot name engines, and some are not there");
        return DMA_UNSUPPORTED;
    }
    return DMA_OK;
}
