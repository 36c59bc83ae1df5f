/* Progress of the worker, and what follows from it. */
#include "internal.h"

void dma_ucx_progress_locked(dma_ucx_t *net)
{
    dma_ucx_poll(net);
    dma_ucx_watch_peers(net);
    dma_ucx_start_matched(net);
    dma_ucx_close_failed_peers(net);
}

unsigned dma_ucx_progress(dma_ucx_t *net)
{
    unsigned completed;

    if (pthread_mutex_trylock(&net->lock)) {
        return 0;
    }
    dma_ucx_progress_locked(net);
    completed = net->completed;
    net->completed = 0;
    pthread_mutex_unlock(&net->lock);
    return completed;
}
