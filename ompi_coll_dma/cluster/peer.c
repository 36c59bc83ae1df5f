/* Peers on other nodes: exchange of addresses, alarms and announcements. See cluster.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

#define POLLS_PER_ROUND  8  /* polls until every peer has been polled once, */
#define BUCKETS_PER_POLL 32 /* but at most so many buckets in one poll */
#define NOTICE_SEQ       UINT32_MAX
#define NOTICE_STEP      UINT32_MAX
#define CLOSE_SECONDS    0.3 /* at the end, for requests in progress */
/* How long a call waits until its first announcement. Each interval is twice the one before. */
#define ANNOUNCE_SECONDS 1.0

static dma_net_tag_t notice_tag(const dma_cluster_t *primary)
{
    return (dma_net_tag_t){.comm = primary->id, .owner = primary->owner, .seq = NOTICE_SEQ, .step = NOTICE_STEP};
}

/* `nbuckets` is a power of 2. */
static uint32_t bucket_of(int rank, uint32_t nbuckets)
{
    return (uint32_t)rank & (nbuckets - 1);
}

static dma_cluster_peer_t *find(dma_cluster_t *primary, int rank)
{
    dma_cluster_peer_t *p = primary->nbuckets ? primary->buckets[bucket_of(rank, primary->nbuckets)] : NULL;

    while (p && p->rank != rank) {
        p = p->next;
    }
    return p;
}

/* Makes room for one more peer: at least as many buckets as peers. Without memory for a larger table, chains get
 * longer. */
static dma_status_t grow_table(dma_cluster_t *primary)
{
    uint32_t n = primary->nbuckets ? 2 * primary->nbuckets : CLUSTER_BUCKETS;
    dma_cluster_peer_t **buckets, *next;

    if (primary->npeers < primary->nbuckets) {
        return DMA_OK;
    }
    if (!(buckets = calloc(n, sizeof(*buckets)))) {
        return primary->nbuckets ? DMA_OK : DMA_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < primary->nbuckets; i++) {
        for (dma_cluster_peer_t *p = primary->buckets[i]; p; p = next) {
            dma_cluster_peer_t **bucket = &buckets[bucket_of(p->rank, n)];

            next = p->next;
            p->next = *bucket;
            *bucket = p;
        }
    }
    free(primary->buckets);
    primary->buckets = buckets;
    primary->nbuckets = n;
    return DMA_OK;
}

size_t dma_cluster_address_room(const dma_cluster_t *primary)
{
    return sizeof(uint32_t) + primary->address_bytes;
}

/* With the lock. */
static dma_status_t add_peer(dma_cluster_t *primary, int rank, dma_cluster_peer_t **result)
{
    dma_cluster_peer_t *p = calloc(1, sizeof(*p)), **bucket;

    if (!p || grow_table(primary) != DMA_OK ||
        (!primary->tells && !(p->addresses = malloc(2 * dma_cluster_address_room(primary))))) {
        free(p);
        return DMA_ERR_NOMEM;
    }
    p->rank = rank;
    bucket = &primary->buckets[bucket_of(rank, primary->nbuckets)];
    p->next = *bucket;
    *bucket = p;
    primary->npeers++;
    *result = p;
    return DMA_OK;
}

/* Posts the messages of the exchange of addresses. Without the lock: posting may run progress, which may need the lock,
 * here or in another communicator. */
static dma_status_t start_exchange(dma_cluster_t *primary, dma_cluster_peer_t *p)
{
    char *ours = p->addresses + dma_cluster_address_room(primary);
    size_t bytes;
    const void *address = primary->net_ops->get_address(primary->net, &bytes);
    uint32_t size = (uint32_t)bytes;
    dma_status_t status;

    if (bytes > primary->address_bytes) {
        return DMA_ERR_NET; /* the network has not kept to its place.address_bytes */
    }
    memcpy(ours, &size, sizeof(size));
    memcpy(ours + sizeof(size), address, bytes);
    status = primary->net_ops->address_recv(primary->handle, p->addresses, dma_cluster_address_room(primary), p->rank,
                                            &p->recv_req);
    if (status != DMA_OK) {
        p->recv_req = NULL;
        return status;
    }
    status = primary->net_ops->address_send(primary->handle, ours, sizeof(size) + bytes, p->rank, &p->send_req);
    if (status != DMA_OK) {
        p->send_req = NULL;
    }
    return status;
}

static dma_status_t test_exchange(dma_cluster_t *primary, dma_cluster_peer_t *p)
{
    dma_status_t status = p->recv_req ? primary->net_ops->address_test(primary->handle, &p->recv_req) : DMA_OK;

    if (status == DMA_OK && p->send_req) {
        status = primary->net_ops->address_test(primary->handle, &p->send_req);
    }
    return status;
}

/* With the lock. Completes the exchange, creates the peer and posts the receive for its notices. A peer that has closed
 * its side sends no notices, but its data may be here. */
static dma_status_t finish_exchange(dma_cluster_t *primary, dma_cluster_peer_t *p)
{
    dma_net_tag_t tag = notice_tag(primary);
    dma_status_t status = test_exchange(primary, p);
    const char *theirs =
        primary->tells ? primary->told + (size_t)p->rank * dma_cluster_address_room(primary) : p->addresses;
    uint32_t size;
    void *peer;

    if (status != DMA_OK) {
        return status;
    }
    memcpy(&size, theirs, sizeof(size));
    if (size > primary->address_bytes) {
        return DMA_ERR_NET;
    }
    status = primary->net_ops->peer_create(primary->net, primary->handle, p->rank, theirs + sizeof(size), size, &peer);
    if (status != DMA_OK) {
        return status;
    }
    free(p->addresses);
    p->addresses = NULL;
    p->net_peer = peer;
    status = primary->net_ops->irecv(primary->net, peer, &tag, &p->received, sizeof(p->received), &p->notice_req);
    return status == DMA_ERR_PEER && primary->net_ops->peer_closed(primary->net, peer) ? DMA_OK : status;
}

dma_status_t dma_cluster_connect_peer(dma_cluster_t *c, int rank, void **peer)
{
    dma_cluster_t *primary = c->primary;
    dma_cluster_peer_t *p;
    dma_status_t status;

    pthread_mutex_lock(&primary->lock);
    p = find(primary, rank);
    status = p ? p->status : add_peer(primary, rank, &p);
    if (status == DMA_OK && !p->exchange_started && !primary->tells) {
        p->exchange_started = true;
        p->status = DMA_AGAIN; /* a caller that finds this peer meanwhile must leave it alone */
        pthread_mutex_unlock(&primary->lock);
        status = start_exchange(primary, p);
        pthread_mutex_lock(&primary->lock);
        p->status = status;
    }
    if (status == DMA_OK && !p->net_peer) {
        status = finish_exchange(primary, p);
    }
    if (status == DMA_OK) {
        *peer = p->net_peer;
    } else if (status < 0 && p) {
        p->status = status;
    }
    pthread_mutex_unlock(&primary->lock);
    return status;
}

/* Calls `visit` for each rank that set-up connects to, until it returns an error. */
static dma_status_t for_each_neighbor(dma_cluster_t *c, dma_status_t (*visit)(dma_cluster_t *, int, void *), void *arg)
{
    const dma_node_map_t *map = &c->node_map;
    int size = dma_node_map_size(map, map->node);
    dma_status_t status = DMA_OK;

    for (int k = -1; k < 2 && map->nnodes > 1; k += 2) {
        int node = dma_node_map_shift(map, map->node, k), theirs = dma_node_map_size(map, node);

        for (int j = 0; j < theirs && status == DMA_OK; j++) {
            int i = k > 0 ? map->index : j, n = k > 0 ? theirs : size, to = k > 0 ? j : map->index;

            if (i % n == to || (i + 1) % n == to) {
                status = visit(c, dma_node_map_rank(map, node, j), arg);
            }
        }
    }
    return status;
}

static dma_status_t alloc_neighbor(dma_cluster_t *c, int rank, void *arg)
{
    dma_cluster_peer_t *p;

    (void)arg;
    return find(c, rank) ? DMA_OK : add_peer(c, rank, &p);
}

dma_status_t dma_cluster_alloc_neighbors(dma_cluster_t *c)
{
    return for_each_neighbor(c, alloc_neighbor, NULL);
}

typedef struct connecting {
    dma_status_t error;
    bool in_progress;
    int failed_rank; /* a rank that could not be connected */
} connecting_t;

/* After an error the others are connected too, because they wait for this rank. No rank may have left before all are
 * connected. So a peer that has closed its side is one that has opened its network again, which is not supported. */
static dma_status_t connect_neighbor(dma_cluster_t *c, int rank, void *arg)
{
    connecting_t *state = arg;
    void *peer;
    dma_status_t status = dma_cluster_connect_peer(c, rank, &peer);

    if (status == DMA_OK && c->net_ops->peer_closed(c->net, peer)) {
        status = DMA_ERR_PEER;
    }
    state->in_progress = state->in_progress || status == DMA_AGAIN;
    if (status < 0) {
        state->error = status;
        state->failed_rank = rank;
    }
    return DMA_OK;
}

dma_status_t dma_cluster_connect_neighbors(dma_cluster_t *c, int *failed_rank)
{
    connecting_t state = {.failed_rank = *failed_rank};

    for_each_neighbor(c, connect_neighbor, &state);
    *failed_rank = state.failed_rank;
    return state.in_progress ? DMA_AGAIN : state.error;
}

/* Is the peer in the current call, with another note? */
static dma_status_t check_announcement(const dma_cluster_t *c, const dma_cluster_notice_t *theirs)
{
    uint32_t differs = theirs->note ^ c->call.note;

    if (!c->running_task || !c->call.plan || !differs || theirs->comm != c->id || theirs->owner != c->owner ||
        theirs->seq != c->call.seq) {
        return DMA_OK;
    }
    return differs & 0xff ? DMA_ERR_MISMATCH : DMA_ERR_TRUNCATE;
}

/* The receive for a peer's notices has failed. If the peer has closed its side in an orderly way, it has completed its
 * part of all calls and sends no more notices. A rank that lacks data of that peer gets the error from the receive of
 * the data. */
static dma_status_t ignore_closed(const dma_cluster_t *primary, const dma_cluster_peer_t *p, dma_status_t status)
{
    return status == DMA_ERR_PEER && primary->net_ops->peer_closed(primary->net, p->net_peer) ? DMA_AGAIN : status;
}

/* Tests the requests of a peer. An error: an alarm, a mismatch, or the peer has failed. */
static dma_status_t poll_peer(dma_cluster_t *c, dma_cluster_peer_t *p)
{
    dma_cluster_t *primary = c->primary;
    dma_net_tag_t tag = notice_tag(primary);
    dma_status_t status =
        p->notice_req ? ignore_closed(primary, p, primary->net_ops->test(primary->net, &p->notice_req)) : DMA_AGAIN;

    if (p->announce_req) {
        primary->net_ops->test(primary->net, &p->announce_req);
    }
    if (status == DMA_OK) {
        p->last = p->received;
        status = p->received.status < 0
                     ? (dma_status_t)p->received.status
                     : ignore_closed(primary, p,
                                     primary->net_ops->irecv(primary->net, p->net_peer, &tag, &p->received,
                                                             sizeof(p->received), &p->notice_req));
    }
    return status < 0 ? status : check_announcement(c, &p->last);
}

dma_status_t dma_cluster_poll_notices(dma_cluster_t *c)
{
    dma_cluster_t *primary = c->primary;
    dma_status_t status = DMA_OK;
    uint32_t n;

    pthread_mutex_lock(&primary->lock);
    n = (primary->nbuckets + POLLS_PER_ROUND - 1) / POLLS_PER_ROUND;
    n = n < BUCKETS_PER_POLL ? n : BUCKETS_PER_POLL;
    for (uint32_t i = 0; i < n && status == DMA_OK; i++) {
        for (dma_cluster_peer_t *p = primary->buckets[primary->next_bucket++ & (primary->nbuckets - 1)];
             p && status == DMA_OK; p = p->next) {
            status = poll_peer(c, p);
        }
    }
    pthread_mutex_unlock(&primary->lock);
    return status;
}

/* Cancels the receive for a peer's notices, which a rank that sends an alarm does not need any more, so that the
 * network can use the memory of its request. */
static bool cancel_notice_recv(dma_cluster_t *primary, dma_cluster_peer_t *p)
{
    if (!p->notice_req) {
        return false;
    }
    primary->net_ops->cancel(primary->net, p->notice_req);
    return primary->net_ops->test(primary->net, &p->notice_req) != DMA_AGAIN;
}

/* With the lock. Sends to all connected peers whose last notice of this kind has been sent. */
static void send_notice(dma_cluster_t *primary, const dma_cluster_notice_t *notice)
{
    dma_net_tag_t tag = notice_tag(primary);

    for (uint32_t i = 0; i < primary->nbuckets; i++) {
        for (dma_cluster_peer_t *p = primary->buckets[i]; p; p = p->next) {
            bool alarm = notice->status != DMA_OK;
            dma_cluster_notice_t *copy = alarm ? &p->alarm : &p->announcement;
            void **req = alarm ? &p->alarm_req : &p->announce_req;
            dma_status_t status;

            if (!p->net_peer || *req) {
                continue;
            }
            *copy = *notice; /* the send may last longer than the caller's notice */
            /* an error is ignored: a peer that has ended does not need the notice */
            status = primary->net_ops->isend(primary->net, p->net_peer, &tag, copy, sizeof(*copy), req);
            if (status == DMA_ERR_NOMEM && alarm && cancel_notice_recv(primary, p)) {
                status = primary->net_ops->isend(primary->net, p->net_peer, &tag, copy, sizeof(*copy), req);
            }
            if (status != DMA_OK) {
                *req = NULL;
            }
        }
    }
}

void dma_cluster_announce_call(dma_cluster_t *c)
{
    dma_cluster_notice_t notice = {
        .status = DMA_OK, .comm = c->id, .owner = c->owner, .seq = c->call.seq, .note = c->call.note};
    double now;

    if (!c->running_task || !c->call.plan) {
        return;
    }
    now = dma_now();
    if (!c->call.waiting_since) {
        c->call.waiting_since = now;
        c->call.announce_interval = ANNOUNCE_SECONDS;
    } else if (now - c->call.waiting_since > c->call.announce_interval) {
        c->call.waiting_since = now;
        c->call.announce_interval *= 2;
        pthread_mutex_lock(&c->primary->lock);
        send_notice(c->primary, &notice);
        pthread_mutex_unlock(&c->primary->lock);
    }
}

void dma_cluster_send_alarm(dma_cluster_t *c, dma_status_t status)
{
    dma_cluster_t *primary = c->primary;
    int none = 0;

    atomic_compare_exchange_strong(&primary->alarm, &none, (int)status);
    pthread_mutex_lock(&primary->lock);
    if (!primary->alarm_sent) {
        send_notice(primary, &(dma_cluster_notice_t){.status = atomic_load(&primary->alarm)});
    }
    primary->alarm_sent = true;
    pthread_mutex_unlock(&primary->lock);
    primary->net_ops->progress(primary->net);
}

void dma_cluster_close_peers(dma_cluster_t *c)
{
    double end = dma_now() + CLOSE_SECONDS;
    dma_pause_t pause = {0};

    for (uint32_t i = 0; i < c->nbuckets; i++) {
        dma_cluster_peer_t *next;

        for (dma_cluster_peer_t *p = c->buckets[i]; p; p = next) {
            next = p->next;
            if (p->notice_req) {
                c->net_ops->cancel(c->net, p->notice_req);
            }
            while ((p->notice_req && c->net_ops->test(c->net, &p->notice_req) == DMA_AGAIN) ||
                   (p->alarm_req && c->net_ops->test(c->net, &p->alarm_req) == DMA_AGAIN) ||
                   (p->announce_req && c->net_ops->test(c->net, &p->announce_req) == DMA_AGAIN)) {
                if (dma_now() > end) {
                    break;
                }
                dma_pause(&pause);
                c->net_ops->progress(c->net);
            }
            if (!p->notice_req && !p->alarm_req && !p->announce_req && !p->recv_req &&
                !p->send_req) { /* otherwise requests still use the memory */
                free(p->addresses);
                free(p);
            }
        }
    }
    free(c->buckets);
    free(c->told);
}

/* ---- errors ---- */

void dma_cluster_append_net_error(dma_comm_t *comm)
{
    const dma_cluster_t *c = comm->cluster;
    char error[DMA_WHY_BYTES] = "";
    size_t at = strlen(comm->reason);

    if (c->net) {
        c->net_ops->last_error(c->net, error, sizeof(error));
    }
    if (error[0]) {
        snprintf(comm->reason + at, sizeof(comm->reason) - at, " (the last trouble between nodes: %s)", error);
    }
}
