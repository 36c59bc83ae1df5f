/* Progress of the worker, and what follows from it. */
#include "internal.h"

/* Most calls of ucp_worker_progress in a row while it reports that there is more to do. */
#define MOST_CALLS 16

static void progress_worker(dma_ucx_t *net)
{
    for (int i = 0; i < MOST_CALLS && dma_ucx_api.ucp_worker_progress(net->ucx.worker); i++) {
    }
}

void dma_ucx_progress_locked(dma_ucx_t *net)
{
    progress_worker(net);
    if (net->failed) {
        progress_worker(net); /* UCX may report the end of one endpoint before a goodbye on the other */
    }
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
