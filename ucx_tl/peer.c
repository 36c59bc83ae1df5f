/*
 * Peers: their endpoints, how they end.
 *
 * Endpoints are closed by force, after a flush where there is still somebody at the other end: an orderly close waits for
 * the peer, and a peer may be gone. A forced close also ends everything that UCX still has of the peer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

dma_net_peer_t *dma_net_peer_find(dma_net_t *net, uint64_t key)
{
    dma_net_head_t head = {.key = key};

    return (dma_net_peer_t *)dma_net_table_get(&net->known, &head);
}

static dma_net_peer_t *new_peer(dma_net_t *net, uint64_t key, const void *address, size_t bytes)
{
    dma_net_peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer || !(peer->address = malloc(bytes))) {
        free(peer);
        return NULL;
    }
    memcpy(peer->address, address, bytes);
    peer->net = net;
    peer->entry.head.key = key;
    dma_net_table_add(&net->known, &peer->entry);
    peer->next = net->peers;
    net->peers = peer;
    return peer;
}

dma_status_t dma_net_peer(dma_net_t *net, uint64_t key, const void *address, size_t bytes, dma_net_peer_t **result)
{
    char found[DMA_NET_ADDRESS_MAX];
    dma_net_peer_t *peer;
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    peer = dma_net_peer_find(net, key);
    if (!peer && !address) {
        /* The caller's function runs without the lock; another thread may come first meanwhile. */
        pthread_mutex_unlock(&net->lock);
        bytes = sizeof(found);
        status = net->config.lookup ? net->config.lookup(net->config.arg, key, found, &bytes) : DMA_ERR_ARG;
        if (status != DMA_OK) {
            return status;
        }
        address = found;
        pthread_mutex_lock(&net->lock);
        peer = dma_net_peer_find(net, key);
    }
    if (!peer) {
        peer = new_peer(net, key, address, bytes);
    }
    pthread_mutex_unlock(&net->lock);
    if (!peer) {
        return DMA_ERR_NOMEM;
    }
    *result = peer;
    return DMA_OK;
}

uint64_t dma_net_peer_key(const dma_net_peer_t *peer)
{
    return peer->entry.head.key;
}

dma_status_t dma_net_peer_status(const dma_net_peer_t *peer)
{
    return atomic_load(&peer->status);
}

bool dma_net_peer_left(const dma_net_peer_t *peer)
{
    return atomic_load(&peer->left);
}

const char *dma_net_trouble(dma_net_t *net, uint64_t *key)
{
    const char *words = NULL;

    pthread_mutex_lock(&net->lock);
    if (net->troubled) {
        *key = net->troubled->entry.head.key;
        words = dma_ucx.ucs_status_string(net->trouble);
    }
    pthread_mutex_unlock(&net->lock);
    return words;
}

void dma_net_note(const dma_net_peer_t *peer, ucs_status_t trouble)
{
    peer->net->troubled = peer;
    peer->net->trouble = trouble;
}

void dma_net_break(dma_net_peer_t *peer, ucs_status_t reason)
{
    if (atomic_load(&peer->status) != DMA_OK) {
        return;
    }
    dma_net_note(peer, reason);
    atomic_store(&peer->status, DMA_ERR_PEER);
    peer->broken = peer->net->broken;
    peer->net->broken = peer;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t reason)
{
    (void)ep;
    dma_net_break(arg, reason);
}

static ucs_status_t make_endpoint(dma_net_peer_t *peer, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = peer->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = peer},
    };

    return dma_ucx.ucp_ep_create(peer->net->worker, &params, ep);
}

/* Is part of it a TCP connection? Not every UCX that we work with can be asked, but all can print; in doubt, yes. */
static bool over_tcp(ucp_ep_h ep)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    bool tcp;

    if (!file) {
        return true;
    }
    dma_ucx.ucp_ep_print_info(ep, file);
    fclose(file);
    tcp = !text || !strstr(text, "lane[") || strstr(text, "tcp/");
    free(text);
    return tcp;
}

static void refuse(dma_net_peer_t *peer, ucs_status_t reason)
{
    const dma_host_t *host = peer->net->config.host;
    char text[200];

    if (host && host->report) {
        snprintf(text, sizeof(text), "UCX has no transport to process %llx that notices when it is gone: %s",
                 (unsigned long long)peer->entry.head.key, dma_ucx.ucs_status_string(reason));
        host->report(DMA_REPORT_WARN, "ucx-endpoint", text);
    }
}

dma_status_t dma_net_connect_locked(dma_net_peer_t *peer)
{
    ucs_status_t reason;

    if (atomic_load(&peer->status) != DMA_OK || peer->ep) {
        return atomic_load(&peer->status);
    }
    reason = make_endpoint(peer, &peer->ep);
    if (reason == UCS_OK && over_tcp(peer->ep)) {
        reason = make_endpoint(peer, &peer->watch);
    }
    if (reason != UCS_OK) {
        dma_net_close(peer);
        refuse(peer, reason);
        return DMA_UNSUPPORTED;
    }
    free(peer->address);
    peer->address = NULL;
    dma_net_say(peer, DMA_NET_HELLO);
    return DMA_OK;
}

dma_status_t dma_net_connect(dma_net_t *net, dma_net_peer_t *peer)
{
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    status = dma_net_connect_locked(peer);
    pthread_mutex_unlock(&net->lock);
    return status;
}

static void said(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    (void)arg;
    dma_ucx.ucp_request_free(request);
}

void dma_net_say(dma_net_peer_t *peer, dma_net_kind_t kind)
{
    dma_net_t *net = peer->net;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = said};
    const dma_net_head_t *head = kind == DMA_NET_HELLO ? &net->hello : kind == DMA_NET_BYE ? &net->bye : &net->quit;

    /* An error here comes to on_error as well. */
    dma_ucx.ucp_am_send_nbx(kind != DMA_NET_HELLO && peer->watch ? peer->watch : peer->ep, DMA_NET_AM, head,
                            sizeof(*head), NULL, 0, &param);
}

static void asked(void *request, ucs_status_t status, void *head)
{
    (void)status;
    free(head);
    dma_ucx.ucp_request_free(request);
}

void dma_net_take_back(const dma_net_req_t *send)
{
    dma_net_head_t *head = malloc(sizeof(*head)); /* the request may be another when this has left */
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA, .cb.send = asked, .user_data = head};

    if (!head) {
        return;
    }
    *head = send->entry.head;
    head->kind = DMA_NET_BACK;
    if (!UCS_PTR_IS_PTR(dma_ucx.ucp_am_send_nbx(send->peer->ep, DMA_NET_AM, head, sizeof(*head), NULL, 0, &param))) {
        free(head);
    }
}

static void closed(void *request, ucs_status_t status, void *arg)
{
    dma_net_t *net = arg;

    (void)status;
    net->closing--;
    dma_ucx.ucp_request_free(request);
}

static void close_endpoint(dma_net_t *net, ucp_ep_h *ep)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send = closed,
        .user_data = net,
    };

    if (*ep && UCS_PTR_IS_PTR(dma_ucx.ucp_ep_close_nbx(*ep, &param))) {
        net->closing++;
    }
    *ep = NULL;
}

void dma_net_close(dma_net_peer_t *peer)
{
    close_endpoint(peer->net, &peer->ep);
    close_endpoint(peer->net, &peer->watch);
}

static bool receive_from(const dma_net_entry_t *entry, const void *peer)
{
    return ((const dma_net_req_t *)entry)->peer == peer;
}

static bool promise_from(const dma_net_entry_t *entry, const void *peer)
{
    return ((const dma_net_kept_t *)entry)->promise && entry->head.key == dma_net_peer_key(peer);
}

/* All of the peer's that UCX has not got; returns whether there was any. */
static bool end_waiting(dma_net_t *net, dma_net_peer_t *peer)
{
    dma_net_entry_t *entry;
    bool any = false;

    while ((entry = dma_net_table_find(&net->kept, promise_from, peer))) {
        dma_net_drop(net, (dma_net_kept_t *)entry);
        any = true;
    }
    while ((entry = dma_net_table_find(&net->posted, receive_from, peer))) {
        dma_net_end(net, (dma_net_req_t *)entry, DMA_ERR_PEER);
        any = true;
    }
    return any;
}

static void end_lingering(dma_net_t *net)
{
    for (dma_net_peer_t **link = &net->lingering; *link;) {
        dma_net_peer_t *peer = *link;

        if (peer->sends + peer->recvs && dma_now() > peer->deadline) {
            dma_net_abandon(net, peer);
        }
        if (peer->sends + peer->recvs) {
            link = &peer->broken;
        } else {
            *link = peer->broken;
        }
    }
}

void dma_net_bury(dma_net_t *net)
{
    dma_net_peer_t *peer;
    bool owed;

    while ((peer = net->broken)) {
        net->broken = peer->broken;
        owed = peer->sends || peer->recvs;
        owed = end_waiting(net, peer) || owed;
        dma_net_close(peer);
        if (owed || !peer->left) {
            peer->tell = net->tell;
            net->tell = peer;
        }
        peer->deadline = dma_now() + DMA_NET_GRACE_SECONDS;
        peer->broken = net->lingering;
        net->lingering = peer;
    }
    end_lingering(net);
}
