/* Peers that have failed: their endpoints are closed, and their requests end. */
#include "internal.h"

static bool is_receive_from(const dma_ucx_entry_t *entry, const void *peer)
{
    return ((const dma_ucx_req_t *)entry)->peer == peer;
}

static bool is_rndv_from(const dma_ucx_entry_t *entry, const void *peer)
{
    return ((const dma_ucx_message_t *)entry)->rndv &&
           entry->header.key == ((const dma_ucx_peer_t *)peer)->entry.header.key;
}

/* Ends what UCX does not know: unexpected RTS messages of the peer, and receives without a message. */
static void end_waiting(dma_ucx_t *net, dma_ucx_peer_t *peer)
{
    dma_ucx_entry_t *entry;

    while ((entry = dma_ucx_table_pop_if(&net->unexpected, is_rndv_from, peer))) {
        dma_ucx_message_free(net, (dma_ucx_message_t *)entry);
    }
    while ((entry = dma_ucx_table_pop_if(&net->posted, is_receive_from, peer))) {
        dma_ucx_req_complete(net, (dma_ucx_req_t *)entry, DMA_ERR_PEER);
    }
}

static void drain(dma_ucx_t *net)
{
    for (dma_ucx_peer_t **link = &net->draining; *link;) {
        dma_ucx_peer_t *peer = *link;

        if (peer->sends + peer->recvs && dma_now() > peer->deadline) {
            dma_ucx_peer_abandon_requests(net, peer);
        }
        if (peer->sends + peer->recvs) {
            link = &peer->next_failed;
        } else {
            *link = peer->next_failed;
        }
    }
}

void dma_ucx_close_failed_peers(dma_ucx_t *net)
{
    dma_ucx_peer_t *peer;

    while ((peer = net->failed)) {
        net->failed = peer->next_failed;
        end_waiting(net, peer);
        dma_ucx_peer_close(peer);
        peer->deadline = dma_now() + DMA_UCX_GRACE_SECONDS;
        peer->next_failed = net->draining;
        net->draining = peer;
    }
    drain(net);
}
