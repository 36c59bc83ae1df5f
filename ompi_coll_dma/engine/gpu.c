/* The list of GPU engines. The best engine comes first. */
#include "engine/sdma/sdma.h"
#include "engine/stream/stream.h"

const dma_gpu_engine_t *const dma_gpu_engines[] = {
    &dma_gpu_engine_sdma,
    &dma_gpu_engine_stream,
    NULL,
};
