/* The names of status values. */
#include "dma/status.h"

const char *dma_status_name(dma_status_t status)
{
    switch (status) {
    case DMA_OK:
        return "ok";
    case DMA_AGAIN:
        return "again";
    case DMA_UNSUPPORTED:
        return "unsupported";
    case DMA_ERR_TRUNCATE:
        return "truncate";
    case DMA_ERR_MISMATCH:
        return "mismatch";
    case DMA_ERR_PEER:
        return "peer gone";
    case DMA_ERR_NOMEM:
        return "no memory";
    case DMA_ERR_NET:
        return "network";
    case DMA_ERR_ARG:
        return "bad argument";
    case DMA_ERR_ENGINE:
        return "engine";
    case DMA_ERR_TIMEOUT:
        return "timeout";
    }
    return "unknown";
}
