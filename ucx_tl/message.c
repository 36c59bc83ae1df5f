/*
 * Messages: posting requests, matching messages that arrive, completing requests.
 *
 * UCX delivers a message as a whole: its data in memory of UCX, or an RTS (rendezvous), for which the receiver names a buffer.
 * In both cases note and size are compared before anything is written. Data that no receive takes, and an RTS that is not
 * accepted, are released; UCX ends the sender's request of a released RTS.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static dma_ucx_req_t *new_request(dma_ucx_t *net)
{
    dma_ucx_req_t *req;
    dma_ucx_slab_t *slab;

    if (!net->free && (slab = calloc(1, sizeof(*slab)))) {
        slab->next = net->slabs;
        net->slabs = slab;
        for (unsigned i = 0; i < DMA_UCX_SLAB; i++) {
            slab->reqs[i].next = net->free;
            net->free = &slab->reqs[i];
        }
    }
    req = net->free;
    if (req) {
        net->free = req->next;
    }
    return req;
}

void dma_ucx_req_complete(dma_ucx_t *net, dma_ucx_req_t *req, dma_status_t status)
{
    if (req->started) {
        *(req->send ? &req->peer->sends : &req->peer->recvs) -= 1;
        req->started = false;
    }
    if (status == DMA_OK && req->bytes >= DMA_UCX_LARGE) {
        net->watch.last_large = dma_now();
    }
    req->status = status;
    net->completed++;
    /* Release: status and data before the flag, because dma_ucx_test reads it without the lock. */
    atomic_store_explicit(&req->completed, true, memory_order_release);
}

/* Translates UCX's status of a request. A request that fails because its endpoint has failed gets DMA_ERR_PEER. */
static dma_status_t status_of(const dma_ucx_req_t *req, ucs_status_t status)
{
    if (status == UCS_OK) {
        return DMA_OK;
    }
    if (atomic_load(&req->peer->status) != DMA_OK) {
        return DMA_ERR_PEER;
    }
    /* The receiver has released the RTS. */
    if (req->send && (status == UCS_ERR_CANCELED || status == UCS_ERR_REJECTED)) {
        return DMA_ERR_TRUNCATE;
    }
    if (status == UCS_ERR_NO_MEMORY) {
        return DMA_ERR_NOMEM;
    }
    dma_ucx_set_last_error(req->peer, status);
    return status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_UNREACHABLE ||
                   status == UCS_ERR_NOT_CONNECTED
               ? DMA_ERR_PEER
               : DMA_ERR_NET;
}

static void on_sent(void *request, ucs_status_t status, void *arg)
{
    dma_ucx_req_t *req = arg;

    if (!req->abandoned) {
        dma_ucx_req_complete(req->peer->net, req, status_of(req, status));
    }
    dma_ucx_api.ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, size_t bytes, void *arg)
{
    dma_ucx_req_t *req = arg;

    if (!req->abandoned) {
        dma_ucx_req_complete(req->peer->net, req,
                             status == UCS_OK && bytes != req->bytes ? DMA_ERR_NET : status_of(req, status));
    }
    dma_ucx_api.ucp_request_free(request);
}

/* The peer's endpoints are closed, so no data moves any more. But UCX 1.13 does not end some requests when it closes an endpoint
 * over shared memory by force. Their memory is not reused, in case UCX ends them later. */
void dma_ucx_peer_abandon_requests(dma_ucx_t *net, dma_ucx_peer_t *peer)
{
    for (dma_ucx_slab_t *slab = net->slabs; slab; slab = slab->next) {
        for (unsigned i = 0; i < DMA_UCX_SLAB; i++) {
            dma_ucx_req_t *req = &slab->reqs[i];

            if (req->started && req->peer == peer) {
                req->abandoned = true;
                dma_ucx_req_complete(net, req, DMA_ERR_PEER);
            }
        }
    }
}

/* `ptr` is what UCX returned for an operation: unless the operation is in progress, the request is complete. */
static void check_started(dma_ucx_t *net, dma_ucx_req_t *req, ucs_status_ptr_t ptr)
{
    if (!UCS_PTR_IS_PTR(ptr)) {
        dma_ucx_req_complete(net, req, status_of(req, UCS_PTR_STATUS(ptr)));
    }
}

static void start_send(dma_ucx_t *net, dma_ucx_req_t *req)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = on_sent,
        .user_data = req,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };

    req->started = true;
    req->peer->sends++;
    check_started(net, req,
                  dma_ucx_api.ucp_am_send_nbx(req->peer->ep, DMA_UCX_AM_ID, &req->entry.header,
                                              sizeof(req->entry.header), req->buffer, req->bytes, &param));
}

void dma_ucx_message_free(dma_ucx_t *net, dma_ucx_message_t *message)
{
    if (message->data) {
        dma_ucx_api.ucp_am_data_release(net->ucx.worker, message->data);
    }
    free(message);
}

/* DMA_OK, or the error of a receive whose message differs from what it expects. */
static dma_status_t compare(const dma_ucx_req_t *req, uint32_t note, size_t bytes)
{
    uint32_t differ = note ^ req->entry.header.tag.note;

    return differ & 0xff ? DMA_ERR_MISMATCH : differ || bytes != req->bytes ? DMA_ERR_TRUNCATE : DMA_OK;
}

/* Delivers a message to a receive, and frees the message. */
static void start_receive(dma_ucx_t *net, dma_ucx_req_t *req, dma_ucx_message_t *message)
{
    dma_status_t status = message->rndv ? atomic_load(&req->peer->status) : DMA_OK;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = on_received,
        .user_data = req,
        .memory_type = UCS_MEMORY_TYPE_HOST,
    };

    if (status == DMA_OK) {
        status = compare(req, message->entry.header.tag.note, message->bytes);
    }
    if (status != DMA_OK || !message->data) {
        dma_ucx_message_free(net, message);
        dma_ucx_req_complete(net, req, status);
        return;
    }
    if (!message->rndv) {
        memcpy(req->buffer, message->data, message->bytes);
        dma_ucx_message_free(net, message);
        dma_ucx_req_complete(net, req, DMA_OK);
        return;
    }
    req->started = true;
    req->peer->recvs++;
    check_started(net, req,
                  dma_ucx_api.ucp_am_recv_data_nbx(net->ucx.worker, message->data, req->buffer, req->bytes, &param));
    free(message);
}

void dma_ucx_start_matched(dma_ucx_t *net)
{
    dma_ucx_message_t *message;

    while ((message = net->matched)) {
        net->matched = message->next;
        if (!net->matched) {
            net->matched_tail = &net->matched;
        }
        if (message->recv) {
            start_receive(net, message->recv, message);
        } else {
            dma_ucx_message_free(net, message);
        }
    }
}

/* The key of a communicator in the table `comms`. */
static dma_ucx_header_t comm_key(uint32_t comm, uint32_t owner)
{
    return (dma_ucx_header_t){.tag = {.comm = comm, .owner = owner}};
}

/* Leaves a message for dma_ucx_start_matched: to be delivered to `recv`, or to be freed if that is NULL. */
static void defer(dma_ucx_t *net, dma_ucx_message_t *message, dma_ucx_req_t *recv)
{
    message->recv = recv;
    message->next = NULL;
    *net->matched_tail = message;
    net->matched_tail = &message->next;
}

/* Keeps the message until after progress for `recv`, or in the table of unexpected messages if that is NULL. */
static ucs_status_t keep(dma_ucx_t *net, const dma_ucx_header_t *header, void *data, size_t bytes, bool rndv,
                         dma_ucx_req_t *recv)
{
    dma_ucx_message_t *message = malloc(sizeof(*message));

    if (!message) {
        net->message_lost = true;
        if (recv) {
            dma_ucx_req_complete(net, recv, DMA_ERR_NOMEM);
        }
        return UCS_OK;
    }
    *message = (dma_ucx_message_t){.entry.header = *header, .data = bytes ? data : NULL, .bytes = bytes, .rndv = rndv};
    if (recv) {
        defer(net, message, recv);
    } else {
        dma_ucx_table_add(&net->unexpected, &message->entry);
    }
    return bytes ? UCS_INPROGRESS : UCS_OK;
}

static void handle_control(dma_ucx_t *net, const dma_ucx_header_t *header)
{
    dma_ucx_peer_t *peer = dma_ucx_peer_find(net, header->key);
    dma_ucx_message_t *message;

    if (header->kind == DMA_UCX_GOODBYE) {
        dma_ucx_peer_closes(net, header);
    } else if (peer && header->kind == DMA_UCX_ABORT) {
        dma_ucx_peer_fail(peer, UCS_ERR_CONNECTION_RESET);
    } else if (header->kind == DMA_UCX_WITHDRAW &&
               (message = (dma_ucx_message_t *)dma_ucx_table_pop(&net->unexpected, header))) {
        defer(net, message, NULL);
    }
}

ucs_status_t dma_ucx_am_handler(void *arg, const void *am_header, size_t header_bytes, void *data, size_t bytes,
                                const ucp_am_recv_param_t *param)
{
    dma_ucx_t *net = arg;
    bool rndv = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    dma_ucx_header_t header, comm;
    dma_ucx_req_t *req;
    dma_status_t status;

    if (header_bytes != sizeof(header)) {
        return UCS_OK;
    }
    /* UCX does not promise an alignment. */
    memcpy(&header, am_header, sizeof(header));
    if (header.kind != DMA_UCX_DATA) {
        handle_control(net, &header);
        return UCS_OK;
    }
    req = (dma_ucx_req_t *)dma_ucx_table_pop(&net->posted, &header);
    comm = comm_key(header.tag.comm, header.tag.owner);
    if (!req && !dma_ucx_table_find(&net->comms, &comm)) {
        return UCS_OK;
    }
    if (!req || rndv) {
        return keep(net, &header, data, bytes, rndv, req);
    }
    /* The common case, eager and expected, is delivered at once. */
    status = compare(req, header.tag.note, bytes);
    if (status == DMA_OK && bytes) {
        memcpy(req->buffer, data, bytes);
    }
    dma_ucx_req_complete(net, req, status);
    return UCS_OK;
}

/* A peer that cannot be connected counts as failed. */
static dma_status_t connect_or_fail(dma_ucx_peer_t *peer)
{
    dma_status_t status = dma_ucx_peer_connect(peer);

    if (status == DMA_UNSUPPORTED) {
        dma_ucx_peer_fail(peer, UCS_ERR_UNREACHABLE);
        status = DMA_ERR_PEER;
    }
    return status;
}

/* With the lock: makes a request. */
static dma_status_t post(dma_ucx_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes, bool send,
                         dma_ucx_req_t **result)
{
    dma_ucx_t *net = peer->net;
    dma_ucx_req_t *req = new_request(net);

    if (!req) {
        return DMA_ERR_NOMEM;
    }
    *req = (dma_ucx_req_t){
        .entry.header = {.tag = *tag, .kind = DMA_UCX_DATA, .key = send ? net->config.key : peer->entry.header.key},
        .peer = peer,
        .buffer = buffer,
        .bytes = bytes,
        .send = send,
    };
    *result = req;
    return DMA_OK;
}

dma_status_t dma_ucx_isend(dma_ucx_t *net, dma_ucx_peer_t *peer, const dma_net_tag_t *tag, const void *buffer,
                           size_t bytes, dma_ucx_req_t **result)
{
    dma_ucx_req_t *req;
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    status = connect_or_fail(peer);
    if (status == DMA_OK) {
        status = post(peer, tag, (void *)buffer, bytes, true, &req);
    }
    if (status == DMA_OK) {
        start_send(net, req);
        *result = req;
    }
    pthread_mutex_unlock(&net->lock);
    return status;
}

dma_status_t dma_ucx_irecv(dma_ucx_t *net, dma_ucx_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes,
                           dma_ucx_req_t **result)
{
    dma_ucx_req_t *req;
    dma_ucx_message_t *message;
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    status = post(peer, tag, buffer, bytes, false, &req);
    if (status != DMA_OK) {
        goto unlock;
    }
    /* A message that has arrived can be received even if its sender has failed since, also if UCX has not delivered it yet:
     * hence the progress. */
    message = (dma_ucx_message_t *)dma_ucx_table_pop(&net->unexpected, &req->entry.header);
    if (!message && (status = connect_or_fail(peer)) != DMA_OK) {
        dma_ucx_poll(net);
        message = (dma_ucx_message_t *)dma_ucx_table_pop(&net->unexpected, &req->entry.header);
    }
    if (!message && status == DMA_OK && net->message_lost) {
        status = DMA_ERR_NOMEM;
    }
    if (message) {
        status = DMA_OK;
        start_receive(net, req, message);
    } else if (status == DMA_OK) {
        dma_ucx_table_add(&net->posted, &req->entry);
    } else {
        req->next = net->free;
        net->free = req;
        goto unlock;
    }
    *result = req;
unlock:
    pthread_mutex_unlock(&net->lock);
    return status;
}

dma_status_t dma_ucx_test(dma_ucx_t *net, dma_ucx_req_t **reqp)
{
    dma_ucx_req_t *req = *reqp;
    dma_status_t status;

    if (!atomic_load_explicit(&req->completed, memory_order_acquire)) {
        return DMA_AGAIN;
    }
    status = req->status;
    *reqp = NULL;
    pthread_mutex_lock(&net->lock);
    if (!req->abandoned) {
        req->next = net->free;
        net->free = req;
    }
    pthread_mutex_unlock(&net->lock);
    return status;
}

void dma_ucx_cancel(dma_ucx_t *net, dma_ucx_req_t *req)
{
    pthread_mutex_lock(&net->lock);
    if (!req->send && dma_ucx_table_remove(&net->posted, &req->entry)) {
        dma_ucx_req_complete(net, req, DMA_ERR_NET);
    } else if (req->send && req->started && req->peer->ep) {
        dma_ucx_withdraw_send(req);
    }
    pthread_mutex_unlock(&net->lock);
}

void dma_ucx_abort(dma_ucx_t *net, dma_ucx_req_t *req)
{
    pthread_mutex_lock(&net->lock);
    if (!atomic_load(&req->completed)) {
        if (req->peer->ep) {
            dma_ucx_peer_send_control(req->peer, DMA_UCX_ABORT);
        }
        dma_ucx_peer_fail(req->peer, UCS_ERR_TIMED_OUT);
    }
    pthread_mutex_unlock(&net->lock);
}

dma_status_t dma_ucx_comm_register(dma_ucx_t *net, uint32_t comm, uint32_t owner)
{
    dma_ucx_entry_t *entry = malloc(sizeof(*entry));

    if (!entry) {
        return DMA_ERR_NOMEM;
    }
    *entry = (dma_ucx_entry_t){.header = comm_key(comm, owner)};
    pthread_mutex_lock(&net->lock);
    dma_ucx_table_add(&net->comms, entry);
    pthread_mutex_unlock(&net->lock);
    return DMA_OK;
}

static bool belongs_to(const dma_ucx_entry_t *entry, const void *comm)
{
    const dma_ucx_header_t *header = comm;

    return entry->header.tag.comm == header->tag.comm && entry->header.tag.owner == header->tag.owner;
}

void dma_ucx_comm_unregister(dma_ucx_t *net, uint32_t comm, uint32_t owner)
{
    dma_ucx_header_t header = comm_key(comm, owner);
    dma_ucx_entry_t *entry;

    pthread_mutex_lock(&net->lock);
    free(dma_ucx_table_pop(&net->comms, &header));
    while ((entry = dma_ucx_table_pop_if(&net->unexpected, belongs_to, &header))) {
        dma_ucx_message_free(net, (dma_ucx_message_t *)entry);
    }
    pthread_mutex_unlock(&net->lock);
}
