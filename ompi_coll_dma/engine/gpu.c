/* The list of GPU engines. The best engine comes first. */
#include <stdarg.h>
#include <string.h>

#include "engine/sdma/sdma.h"
#include "engine/stream/stream.h"

const dma_gpu_engine_t *const dma_gpu_engines[] = {
    &dma_gpu_engine_sdma,
    &dma_gpu_engine_stream,
    NULL,
};

void dma_gpu_advise(char *advice, const char *format, ...)
{
    size_t have = advice ? strlen(advice) : 0;
    va_list args;

    if (advice && have + 2 < DMA_GPU_ADVICE_BYTES) {
        have += (size_t)sprintf(advice + have, "%s", have ? "; " : "");
        va_start(args, format);
        vsnprintf(advice + have, DMA_GPU_ADVICE_BYTES - have, format, args);
        va_end(args);
    }
}

dma_gpu_traits_t dma_gpu_traits_of_call(const dma_gpu_traits_t *traits, bool armed)
{
    dma_gpu_traits_t t = *traits;

    t.features &= armed ? UINT32_MAX : ~(uint32_t)DMA_GPU_PRELAUNCH;
    return t;
}

void dma_gpu_request_traits(dma_plan_req_t *req, const dma_gpu_traits_t *traits)
{
    uint32_t features = UINT32_MAX;

    req->max_queues = UINT32_MAX;
    for (int r = 0; r < req->nranks; r++) {
        features &= traits[r].features;
        req->max_queues = traits[r].max_ways < req->max_queues ? traits[r].max_ways : req->max_queues;
    }
    req->prelaunch = features & DMA_GPU_PRELAUNCH;
    req->bcst = features & DMA_GPU_BCST_PACKETS;
    req->by_copies = !(features & DMA_GPU_SWAP_PACKETS);
}
