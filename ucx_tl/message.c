/*
 * Messages: posting, what happens when one arrives, how requests end.
 *
 * UCX hands an arriving message over as a whole: its bytes in memory of UCX's, or a promise (rendezvous) that we accept by
 * naming a buffer. Either way note and size are compared before anything is written. A promise that is not accepted, and
 * data that nobody takes, are released; UCX tells the sender of a promise, which then ends.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static const ucs_memory_type_t memory_types[] = {
    [DMA_NET_HOST] = UCS_MEMORY_TYPE_HOST,
    [DMA_NET_ROCM] = UCS_MEMORY_TYPE_ROCM,
    [DMA_NET_CUDA] = UCS_MEMORY_TYPE_CUDA,
};

bool dma_net_can(const dma_net_t *net, dma_net_memory_t memory)
{
    return memory == DMA_NET_HOST || (net->memory_types & UCS_BIT(memory_types[memory]));
}

static dma_net_req_t *new_request(dma_net_t *net)
{
    dma_net_req_t *req;
    dma_net_slab_t *slab;

    if (!net->free && (slab = calloc(1, sizeof(*slab)))) {
        slab->next = net->slabs;
        net->slabs = slab;
        for (unsigned i = 0; i < DMA_NET_SLAB; i++) {
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

void dma_net_end(dma_net_t *net, dma_net_req_t *req, dma_status_t status)
{
    if (req->running) {
        *(req->send ? &req->peer->sends : &req->peer->recvs) -= 1;
        req->running = false;
    }
    req->status = status;
    net->ended++;
    atomic_fetch_sub_explicit(&net->active, 1, memory_order_relaxed);
    /* Status and data before the flag: dma_net_test looks without the lock. */
    atomic_store_explicit(&req->ended, true, memory_order_release);
}

/* UCX's status of a request, in ours. What fails with an endpoint fails because of the peer. */
static dma_status_t status_of(const dma_net_req_t *req, ucs_status_t status)
{
    if (status == UCS_OK) {
        return DMA_OK;
    }
    if (atomic_load(&req->peer->status) != DMA_OK) {
        return DMA_ERR_PEER;
    }
    /* A promise that the receiver did not accept. */
    if (req->send && (status == UCS_ERR_CANCELED || status == UCS_ERR_REJECTED)) {
        return DMA_ERR_TRUNCATE;
    }
    if (status == UCS_ERR_NO_MEMORY) {
        return DMA_ERR_NOMEM;
    }
    dma_net_note(req->peer, status);
    return status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_UNREACHABLE ||
                   status == UCS_ERR_NOT_CONNECTED
               ? DMA_ERR_PEER
               : DMA_ERR_NET;
}

static void sent(void *request, ucs_status_t status, void *arg)
{
    dma_net_req_t *req = arg;

    if (!req->abandoned) {
        dma_net_end(req->peer->net, req, status_of(req, status));
    }
    dma_ucx.ucp_request_free(request);
}

static void received(void *request, ucs_status_t status, size_t bytes, void *arg)
{
    dma_net_req_t *req = arg;

    if (!req->abandoned) {
        dma_net_end(req->peer->net, req,
                    status == UCS_OK && bytes != req->bytes ? DMA_ERR_NET : status_of(req, status));
    }
    dma_ucx.ucp_request_free(request);
}

/* Its endpoints are closed, so nothing moves any more; but UCX 1.13 forgets some requests when it closes one over shared
 * memory by force. Their memory is not used again: UCX may remember. */
void dma_net_abandon(dma_net_t *net, dma_net_peer_t *peer)
{
    for (dma_net_slab_t *slab = net->slabs; slab; slab = slab->next) {
        for (unsigned i = 0; i < DMA_NET_SLAB; i++) {
            dma_net_req_t *req = &slab->reqs[i];

            if (req->running && req->peer == peer) {
                req->abandoned = true;
                dma_net_end(net, req, DMA_ERR_PEER);
            }
        }
    }
}

/* After an operation was given to UCX: it has it, or it is over already. */
static void started(dma_net_t *net, dma_net_req_t *req, ucs_status_ptr_t ptr)
{
    if (!UCS_PTR_IS_PTR(ptr)) {
        dma_net_end(net, req, status_of(req, UCS_PTR_STATUS(ptr)));
    }
}

static void start_send(dma_net_t *net, dma_net_req_t *req)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.send = sent,
        .user_data = req,
        .memory_type = memory_types[req->memory],
    };

    req->running = true;
    req->peer->sends++;
    started(net, req,
            dma_ucx.ucp_am_send_nbx(req->peer->ep, DMA_NET_AM, &req->entry.head, sizeof(req->entry.head), req->buffer,
                                    req->bytes, &param));
}

void dma_net_drop(dma_net_t *net, dma_net_kept_t *kept)
{
    if (kept->data) {
        dma_ucx.ucp_am_data_release(net->worker, kept->data);
    }
    free(kept);
}

/* What a receive and its message disagree about. */
static dma_status_t compare(const dma_net_req_t *req, uint32_t note, size_t bytes)
{
    uint32_t differ = note ^ req->entry.head.tag.note;

    return differ & 0xff ? DMA_ERR_MISMATCH : differ || bytes != req->bytes ? DMA_ERR_TRUNCATE : DMA_OK;
}

/* The message's data goes to the receive's buffer; `kept` is used up. */
static void start_receive(dma_net_t *net, dma_net_req_t *req, dma_net_kept_t *kept)
{
    dma_status_t status = kept->promise ? atomic_load(&req->peer->status) : DMA_OK;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
        .cb.recv_am = received,
        .user_data = req,
        .memory_type = memory_types[req->memory],
    };

    if (status == DMA_OK) {
        status = compare(req, kept->entry.head.tag.note, kept->bytes);
    }
    if (status != DMA_OK || !kept->data) {
        dma_net_drop(net, kept);
        dma_net_end(net, req, status);
        return;
    }
    if (!kept->promise && req->memory == DMA_NET_HOST) {
        memcpy(req->buffer, kept->data, kept->bytes);
        dma_net_drop(net, kept);
        dma_net_end(net, req, DMA_OK);
        return;
    }
    req->running = true;
    req->peer->recvs++;
    started(net, req, dma_ucx.ucp_am_recv_data_nbx(net->worker, kept->data, req->buffer, req->bytes, &param));
    free(kept);
}

void dma_net_start_taken(dma_net_t *net)
{
    dma_net_kept_t *kept;

    while ((kept = net->taken)) {
        net->taken = kept->next;
        if (!net->taken) {
            net->taken_tail = &net->taken;
        }
        if (kept->taker) {
            start_receive(net, kept->taker, kept);
        } else {
            dma_net_drop(net, kept);
        }
    }
}

/* The communicator among those that have been joined. */
static dma_net_head_t of_comm(uint32_t comm, uint32_t owner)
{
    return (dma_net_head_t){.tag = {.comm = comm, .owner = owner}};
}

/* To be seen to after progress: data for `taker`, or with NULL nobody's. */
static void put_aside(dma_net_t *net, dma_net_kept_t *kept, dma_net_req_t *taker)
{
    kept->taker = taker;
    kept->next = NULL;
    *net->taken_tail = kept;
    net->taken_tail = &kept->next;
}

/* Into the table, or for the receive that waits for it. */
static ucs_status_t keep(dma_net_t *net, const dma_net_head_t *head, void *data, size_t bytes, bool promise,
                         dma_net_req_t *taker)
{
    dma_net_kept_t *kept = malloc(sizeof(*kept));

    if (!kept) {
        net->lost = true;
        if (taker) {
            dma_net_end(net, taker, DMA_ERR_NOMEM);
        }
        return UCS_OK;
    }
    *kept = (dma_net_kept_t){.entry.head = *head, .data = bytes ? data : NULL, .bytes = bytes, .promise = promise};
    if (taker) {
        put_aside(net, kept, taker);
    } else {
        dma_net_table_add(&net->kept, &kept->entry);
    }
    return bytes ? UCS_INPROGRESS : UCS_OK;
}

/* One of our own messages. */
static void told(dma_net_t *net, const dma_net_head_t *head)
{
    dma_net_peer_t *peer = dma_net_peer_find(net, head->key);
    dma_net_kept_t *kept;

    if (peer && head->kind == DMA_NET_BYE) {
        peer->left = true;
    } else if (peer && head->kind == DMA_NET_QUIT) {
        dma_net_break(peer, UCS_ERR_CONNECTION_RESET);
    } else if (head->kind == DMA_NET_BACK && (kept = (dma_net_kept_t *)dma_net_table_take(&net->kept, head))) {
        put_aside(net, kept, NULL);
    }
}

ucs_status_t dma_net_arrived(void *arg, const void *header, size_t header_bytes, void *data, size_t bytes,
                             const ucp_am_recv_param_t *param)
{
    dma_net_t *net = arg;
    bool promise = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
    dma_net_head_t head, comm;
    dma_net_req_t *req;
    dma_status_t status;

    if (header_bytes != sizeof(head)) {
        return UCS_OK;
    }
    /* UCX does not promise its alignment. */
    memcpy(&head, header, sizeof(head));
    if (head.kind != DMA_NET_MESSAGE) {
        told(net, &head);
        return UCS_OK;
    }
    req = (dma_net_req_t *)dma_net_table_take(&net->posted, &head);
    comm = of_comm(head.tag.comm, head.tag.owner);
    if (!req && !dma_net_table_get(&net->joined, &comm)) {
        return UCS_OK;
    }
    if (!req || promise || req->memory != DMA_NET_HOST) {
        return keep(net, &head, data, bytes, promise, req);
    }
    /* The common case, without a detour: small and awaited. */
    status = compare(req, head.tag.note, bytes);
    if (status == DMA_OK && bytes) {
        memcpy(req->buffer, data, bytes);
    }
    dma_net_end(net, req, status);
    return UCS_OK;
}

/* For set-up there may be another way than ours; for a message there is none any more. */
static dma_status_t connect_for_message(dma_net_peer_t *peer)
{
    dma_status_t status = dma_net_connect_locked(peer);

    if (status == DMA_UNSUPPORTED) {
        dma_net_break(peer, UCS_ERR_UNREACHABLE);
        status = DMA_ERR_PEER;
    }
    return status;
}

/* With the lock: a request for a peer that is there; DMA_OK or why not. */
static dma_status_t post(dma_net_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes,
                         dma_net_memory_t memory, bool send, dma_net_req_t **result)
{
    dma_net_t *net = peer->net;
    dma_net_req_t *req = new_request(net);

    if (!req) {
        return DMA_ERR_NOMEM;
    }
    *req = (dma_net_req_t){
        .entry.head = {.tag = *tag, .kind = DMA_NET_MESSAGE, .key = send ? net->config.key : peer->entry.head.key},
        .peer = peer,
        .buffer = buffer,
        .bytes = bytes,
        .memory = memory,
        .send = send,
    };
    atomic_fetch_add_explicit(&net->active, 1, memory_order_relaxed);
    *result = req;
    return DMA_OK;
}

dma_status_t dma_net_isend(dma_net_t *net, dma_net_peer_t *peer, const dma_net_tag_t *tag, const void *buffer,
                           size_t bytes, dma_net_memory_t memory, dma_net_req_t **result)
{
    dma_net_req_t *req;
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    status = connect_for_message(peer);
    if (status == DMA_OK) {
        status = post(peer, tag, (void *)buffer, bytes, memory, true, &req);
    }
    if (status == DMA_OK) {
        start_send(net, req);
        *result = req;
    }
    pthread_mutex_unlock(&net->lock);
    return status;
}

dma_status_t dma_net_irecv(dma_net_t *net, dma_net_peer_t *peer, const dma_net_tag_t *tag, void *buffer, size_t bytes,
                           dma_net_memory_t memory, dma_net_req_t **result)
{
    dma_net_req_t *req;
    dma_net_kept_t *kept;
    dma_status_t status;

    pthread_mutex_lock(&net->lock);
    status = post(peer, tag, buffer, bytes, memory, false, &req);
    if (status != DMA_OK) {
        goto unlock;
    }
    /* What has arrived can be had even if its sender is gone since, also if nobody has looked yet. */
    kept = (dma_net_kept_t *)dma_net_table_take(&net->kept, &req->entry.head);
    if (!kept && (status = connect_for_message(peer)) != DMA_OK) {
        dma_net_move(net);
        kept = (dma_net_kept_t *)dma_net_table_take(&net->kept, &req->entry.head);
    }
    if (!kept && status == DMA_OK && net->lost) {
        status = DMA_ERR_NOMEM;
    }
    if (kept) {
        status = DMA_OK;
        start_receive(net, req, kept);
    } else if (status == DMA_OK) {
        dma_net_table_add(&net->posted, &req->entry);
    } else {
        atomic_fetch_sub_explicit(&net->active, 1, memory_order_relaxed);
        req->next = net->free;
        net->free = req;
        goto unlock;
    }
    *result = req;
unlock:
    pthread_mutex_unlock(&net->lock);
    return status;
}

dma_status_t dma_net_test(dma_net_t *net, dma_net_req_t **reqp)
{
    dma_net_req_t *req = *reqp;
    dma_status_t status;

    if (!atomic_load_explicit(&req->ended, memory_order_acquire)) {
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

void dma_net_cancel(dma_net_t *net, dma_net_req_t *req)
{
    pthread_mutex_lock(&net->lock);
    if (!req->send && dma_net_table_remove(&net->posted, &req->entry)) {
        dma_net_end(net, req, DMA_ERR_NET);
    } else if (req->send && req->running && req->peer->ep) {
        dma_net_take_back(req);
    }
    pthread_mutex_unlock(&net->lock);
}

void dma_net_give_up(dma_net_t *net, dma_net_req_t *req)
{
    pthread_mutex_lock(&net->lock);
    if (!atomic_load(&req->ended)) {
        if (req->peer->ep) {
            dma_net_say(req->peer, DMA_NET_QUIT);
        }
        dma_net_break(req->peer, UCS_ERR_TIMED_OUT);
    }
    pthread_mutex_unlock(&net->lock);
}

dma_status_t dma_net_join(dma_net_t *net, uint32_t comm, uint32_t owner)
{
    dma_net_entry_t *entry = malloc(sizeof(*entry));

    if (!entry) {
        return DMA_ERR_NOMEM;
    }
    *entry = (dma_net_entry_t){.head = of_comm(comm, owner)};
    pthread_mutex_lock(&net->lock);
    dma_net_table_add(&net->joined, entry);
    pthread_mutex_unlock(&net->lock);
    return DMA_OK;
}

static bool belongs_to(const dma_net_entry_t *entry, const void *comm)
{
    const dma_net_head_t *head = comm;

    return entry->head.tag.comm == head->tag.comm && entry->head.tag.owner == head->tag.owner;
}

void dma_net_leave(dma_net_t *net, uint32_t comm, uint32_t owner)
{
    dma_net_head_t head = of_comm(comm, owner);
    dma_net_entry_t *entry;

    pthread_mutex_lock(&net->lock);
    free(dma_net_table_take(&net->joined, &head));
    while ((entry = dma_net_table_find(&net->kept, belongs_to, &head))) {
        dma_net_drop(net, (dma_net_kept_t *)entry);
    }
    pthread_mutex_unlock(&net->lock);
}
