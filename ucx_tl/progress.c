/* Moving on, and telling of peers that are gone. */
#include "internal.h"

/* Calls of UCX in a row while it says that there is more. */
#define ROUNDS 16

static void rounds(dma_net_t *net)
{
    for (int i = 0; i < ROUNDS && dma_ucx.ucp_worker_progress(net->worker); i++) {
    }
}

void dma_net_move(dma_net_t *net)
{
    rounds(net);
    if (net->broken) {
        rounds(net); /* a goodbye on the one endpoint may be read after the end of the other */
    }
    dma_net_start_taken(net);
    dma_net_bury(net);
}

/* With the lock, which is given up around each call. */
static void tell(dma_net_t *net)
{
    dma_net_peer_t *peer;

    while ((peer = net->tell)) {
        net->tell = peer->tell;
        if (net->config.failed) {
            pthread_mutex_unlock(&net->lock);
            net->config.failed(net->config.arg, peer, DMA_ERR_PEER);
            pthread_mutex_lock(&net->lock);
        }
    }
}

unsigned dma_net_progress(dma_net_t *net)
{
    unsigned ended;

    if (pthread_mutex_trylock(&net->lock)) {
        return 0;
    }
    dma_net_move(net);
    tell(net);
    ended = net->ended;
    net->ended = 0;
    pthread_mutex_unlock(&net->lock);
    return ended;
}

unsigned dma_net_active(const dma_net_t *net)
{
    return atomic_load_explicit(&net->active, memory_order_relaxed);
}
