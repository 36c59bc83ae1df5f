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
