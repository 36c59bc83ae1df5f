/* The engines of GPUs that there are, the best first. */
#include "gpu/engine.h"

const dma_gpu_engine_t *const dma_gpu_engines[] = {
    NULL,
};
