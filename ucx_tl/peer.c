/*
 * Peers: their endpoints, and their failure.
 *
 * Endpoints are closed by force (UCP_EP_CLOSE_FLAG_FORCE), after a flush if the peer has not failed: an orderly close waits for
 * the peer, which may have failed. A forced close also ends all requests that UCX has of the peer.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"

#define LEAST_DESCRIPTORS 6 /* that a process can still open, for a connection to be made */

dma_ucx_peer_t *dma_ucx_peer_find(dma_ucx_t *net, uint64_t key)
{
    dma_ucx_header_t header = {.key = key};

    return (dma_ucx_peer_t *)dma_ucx_table_find(&net->peer_table, &header);
}

static void add_peer(dma_ucx_t *net, uint64_t key, dma_ucx_peer_t *peer)
{
    peer->net = net;
    peer->entry.header.key = key;
    dma_ucx_table_add(&net->peer_table, &peer->entry);
    peer->next = net->peers;
    net->peers = peer;
}

static dma_status_t new_peer(dma_ucx_t *net, uint64_t key, const void *address, size_t bytes, dma_ucx_peer_t **result)
{
    dma_ucx_peer_t *peer = calloc(1, sizeof(*peer));
    dma_status_t status = peer ? dma_ucx_address_unpack(address, bytes, peer) : DMA_ERR_NOMEM;

    if (status != DMA_OK) {
        free(peer);
        return status;
    }
    add_peer(net, key, peer);
    *result = peer;
    return DMA_OK;
}

void dma_ucx_peer_closes(dma_ucx_t *net, const dma_ucx_header_t *goodbye)
{
    uint64_t hash = (uint64_t)goodbye->tag.comm << 32 | goodbye->tag.owner;
    dma_ucx_peer_t *peer = dma_ucx_peer_find(net, goodbye->key);

    if (!peer && hash && (peer = calloc(1, sizeof(*peer)))) {
        atomic_store(&peer->status, DMA_ERR_PEER);
        peer->goodbye_hash = hash;
        add_peer(net, goodbye->key, peer);
    }
    if (!peer) {
        return;
    }
    if (peer->goodbye_hash) {
        peer->goodbye_hash = hash; /* of its newest network */
    }
    atomic_store(&peer->closed, true);
}

/* Now the address of a peer is known whose goodbye has come before. It is closed, unless the address is that of a network which
 * the process has opened since. */
static dma_status_t check_goodbye(dma_ucx_peer_t *peer, const void *address, size_t bytes)
{
    if (dma_ucx_address_hash(address, bytes) != peer->goodbye_hash) {
        dma_status_t status = dma_ucx_address_unpack(address, bytes, peer);

        if (status != DMA_OK) {
            return status;
        }
        atomic_store(&peer->status, DMA_OK);
        atomic_store(&peer->closed, false);
    }
    peer->goodbye_hash = 0;
    return DMA_OK;
}

dma_status_t dma_ucx_peer_create(dma_ucx_t *net, uint64_t key, const void *address, size_t bytes,
                                 dma_ucx_peer_t **result)
{
    dma_status_t status = DMA_OK;
    dma_ucx_peer_t *peer;

    pthread_mutex_lock(&net->lock);
    peer = dma_ucx_peer_find(net, key);
    if (!peer) {
        status = new_peer(net, key, address, bytes, &peer);
    } else if (peer->goodbye_hash) {
        status = check_goodbye(peer, address, bytes);
    }
    pthread_mutex_unlock(&net->lock);
    if (status == DMA_OK) {
        *result = peer;
    }
    return status;
}

bool dma_ucx_is_connected(dma_ucx_t *net, uint64_t key)
{
    dma_ucx_peer_t *peer;
    bool connected;

    pthread_mutex_lock(&net->lock);
    peer = dma_ucx_peer_find(net, key);
    connected = peer && peer->ep;
    pthread_mutex_unlock(&net->lock);
    return connected;
}

bool dma_ucx_peer_closed(const dma_ucx_peer_t *peer)
{
    return atomic_load(&peer->closed);
}

const char *dma_ucx_last_error(dma_ucx_t *net, uint64_t *key)
{
    const char *text = NULL;

    pthread_mutex_lock(&net->lock);
    if (net->last_error_peer) {
        *key = net->last_error_peer->entry.header.key;
        text = dma_ucx_api.ucs_status_string(net->last_error);
    }
    pthread_mutex_unlock(&net->lock);
    return text;
}

void dma_ucx_set_last_error(const dma_ucx_peer_t *peer, ucs_status_t error)
{
    peer->net->last_error_peer = peer;
    peer->net->last_error = error;
}

void dma_ucx_peer_fail(dma_ucx_peer_t *peer, ucs_status_t reason)
{
    if (atomic_load(&peer->status) != DMA_OK) {
        return;
    }
    dma_ucx_set_last_error(peer, reason);
    atomic_store(&peer->status, DMA_ERR_PEER);
    peer->next_failed = peer->net->failed;
    peer->net->failed = peer;
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t reason)
{
    (void)ep;
    dma_ucx_peer_fail(arg, reason);
}

static ucs_status_t make_endpoint(dma_ucx_peer_t *peer, ucp_ep_h *ep)
{
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = peer->address,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = on_error, .arg = peer},
    };

    return dma_ucx_api.ucp_ep_create(peer->net->ucx.worker, &params, ep);
}

/* Whether a lane of the endpoint is a TCP connection. Not every supported version of UCX has a query for that, but all can
 * print the lanes. In doubt, true. */
static bool uses_tcp(ucp_ep_h ep)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    bool tcp;

    if (!file) {
        return true;
    }
    dma_ucx_api.ucp_ep_print_info(ep, file);
    fclose(file);
    tcp = !text || !strstr(text, "lane[") || strstr(text, "tcp/");
    free(text);
    return tcp;
}

static void report_unreachable(dma_ucx_peer_t *peer, ucs_status_t reason)
{
    const dma_host_t *host = peer->net->config.host;
    char text[200];

    if (host && host->report) {
        snprintf(text, sizeof(text), "UCX has no transport to process %llx that detects its failure: %s",
                 (unsigned long long)peer->entry.header.key, dma_ucx_api.ucs_status_string(reason));
        host->report(DMA_REPORT_WARN, "ucx-endpoint", text);
    }
}

/* UCX ends the process, or stops listening, where it gets no descriptor. So the last ones are left to it and to others. */
static bool may_open(const dma_ucx_t *net)
{
    int fd[LEAST_DESCRIPTORS], n = 0;
    bool may;

    while (net->ucx.nports && n < LEAST_DESCRIPTORS && (fd[n] = eventfd(0, EFD_CLOEXEC)) >= 0) {
        n++;
    }
    may = n == LEAST_DESCRIPTORS || errno != EMFILE;
    while (n > 0) {
        close(fd[--n]);
    }
    return may;
}

static void report_limit(const dma_ucx_t *net)
{
    const dma_host_t *host = net->config.host;
    struct rlimit limit = {0};
    char text[200];

    if (host && host->report) {
        getrlimit(RLIMIT_NOFILE, &limit);
        snprintf(text, sizeof(text),
                 "a connection between nodes is not made: too many open files, the limit is %llu; "
                 "raise it (ulimit -n) on all nodes",
                 (unsigned long long)limit.rlim_cur);
        host->report(DMA_REPORT_WARN, "ucx-files", text);
    }
}

dma_status_t dma_ucx_peer_connect(dma_ucx_peer_t *peer)
{
    ucs_status_t reason;

    if (atomic_load(&peer->status) != DMA_OK || peer->ep) {
        return atomic_load(&peer->status);
    }
    errno = 0;
    if (!may_open(peer->net)) {
        report_limit(peer->net);
        return DMA_UNSUPPORTED;
    }
    reason = make_endpoint(peer, &peer->ep);
    if (reason == UCS_OK && !peer->net->watch.limit_ms && uses_tcp(peer->ep)) {
        reason = make_endpoint(peer, &peer->idle_ep);
    }
    if (reason != UCS_OK) {
        dma_ucx_peer_close(peer);
        report_unreachable(peer, reason);
        return DMA_UNSUPPORTED;
    }
    free(peer->address);
    peer->address = NULL;
    dma_ucx_peer_send_control(peer, DMA_UCX_HELLO);
    return DMA_OK;
}

static void on_control_sent(void *request, ucs_status_t status, void *arg)
{
    (void)status;
    (void)arg;
    dma_ucx_api.ucp_request_free(request);
}

void dma_ucx_peer_send_control(dma_ucx_peer_t *peer, dma_ucx_kind_t kind)
{
    dma_ucx_t *net = peer->net;
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK, .cb.send = on_control_sent};
    const dma_ucx_header_t *header = kind == DMA_UCX_HELLO     ? &net->hello
                                     : kind == DMA_UCX_GOODBYE ? &net->goodbye
                                                               : &net->abort;

    /* An error is not handled here because UCX also calls on_error. */
    dma_ucx_api.ucp_am_send_nbx(kind != DMA_UCX_HELLO && peer->idle_ep ? peer->idle_ep : peer->ep, DMA_UCX_AM_ID,
                                header, sizeof(*header), NULL, 0, &param);
}

static void on_withdraw_sent(void *request, ucs_status_t status, void *header)
{
    (void)status;
    free(header);
    dma_ucx_api.ucp_request_free(request);
}

void dma_ucx_withdraw_send(const dma_ucx_req_t *send)
{
    dma_ucx_header_t *header = malloc(sizeof(*header)); /* the request may be reused before this has left */
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_withdraw_sent,
                                 .user_data = header};

    if (!header) {
        return;
    }
    *header = send->entry.header;
    header->kind = DMA_UCX_WITHDRAW;
    if (!UCS_PTR_IS_PTR(
            dma_ucx_api.ucp_am_send_nbx(send->peer->ep, DMA_UCX_AM_ID, header, sizeof(*header), NULL, 0, &param))) {
        free(header);
    }
}

static void on_closed(void *request, ucs_status_t status, void *arg)
{
    dma_ucx_t *net = arg;

    (void)status;
    net->closing_eps--;
    dma_ucx_api.ucp_request_free(request);
}

static void close_endpoint(dma_ucx_t *net, ucp_ep_h *ep)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .flags = UCP_EP_CLOSE_FLAG_FORCE,
        .cb.send = on_closed,
        .user_data = net,
    };

    if (*ep && UCS_PTR_IS_PTR(dma_ucx_api.ucp_ep_close_nbx(*ep, &param))) {
        net->closing_eps++;
    }
    *ep = NULL;
}

void dma_ucx_peer_close(dma_ucx_peer_t *peer)
{
    close_endpoint(peer->net, &peer->ep);
    close_endpoint(peer->net, &peer->idle_ep);
}

/* ---- progress of the worker ---- */

/* Most calls of ucp_worker_progress in a row while it reports that there is more to do. */
#define MOST_CALLS 16

static void progress_worker(dma_ucx_t *net)
{
    for (int i = 0; i < MOST_CALLS && dma_ucx_api.ucp_worker_progress(net->ucx.worker); i++) {
    }
}

void dma_ucx_poll(dma_ucx_t *net)
{
    progress_worker(net);
    if (net->failed) {
        progress_worker(net); /* UCX may report the end of one endpoint before a goodbye on the other */
    }
}
