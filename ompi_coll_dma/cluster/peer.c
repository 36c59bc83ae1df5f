/* Peers on other nodes: introductions, alarms. See cluster.h. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"

#define LOOKS        8  /* until everybody has been listened to, */
#define LISTEN       32 /* but no more chains than that in one */
#define ALARM_SEQ    UINT32_MAX
#define ALARM_STEP   UINT32_MAX
#define LAST_SECONDS 0.3 /* for what is under way at the end */
#define TELL_SECONDS 1.0 /* after which a call that waits tells peers about itself; then twice as long, and so on */

static dma_net_tag_t alarm_tag(const dma_cluster_t *root)
{
    return (dma_net_tag_t){.comm = root->id, .owner = root->owner, .seq = ALARM_SEQ, .step = ALARM_STEP};
}

/* `chains` is a power of 2. */
static uint32_t chain_of(int rank, uint32_t chains)
{
    return (uint32_t)rank & (chains - 1);
}

static dma_cluster_peer_t *find(dma_cluster_t *root, int rank)
{
    dma_cluster_peer_t *p = root->chains ? root->peers[chain_of(rank, root->chains)] : NULL;

    while (p && p->rank != rank) {
        p = p->next;
    }
    return p;
}

/* As many chains as peers at least, but where there is no memory for more. */
static dma_status_t make_room(dma_cluster_t *root)
{
    uint32_t n = root->chains ? 2 * root->chains : CLUSTER_CHAINS;
    dma_cluster_peer_t **peers, *next;

    if (root->npeers < root->chains) {
        return DMA_OK;
    }
    if (!(peers = calloc(n, sizeof(*peers)))) {
        return root->chains ? DMA_OK : DMA_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < root->chains; i++) {
        for (dma_cluster_peer_t *p = root->peers[i]; p; p = next) {
            dma_cluster_peer_t **first = &peers[chain_of(p->rank, n)];

            next = p->next;
            p->next = *first;
            *first = p;
        }
    }
    free(root->peers);
    root->peers = peers;
    root->chains = n;
    return DMA_OK;
}

/* One half of a card is for theirs, one for ours. */
static size_t half_card(const dma_cluster_t *root)
{
    return sizeof(uint32_t) + root->address_bytes;
}

/* With the lock: a rank to be introduced to. */
static dma_status_t add_peer(dma_cluster_t *root, int rank, dma_cluster_peer_t **result)
{
    dma_cluster_peer_t *p = calloc(1, sizeof(*p)), **first;

    if (!p || make_room(root) != DMA_OK || !(p->card = malloc(2 * half_card(root)))) {
        free(p);
        return DMA_ERR_NOMEM;
    }
    p->rank = rank;
    first = &root->peers[chain_of(rank, root->chains)];
    p->next = *first;
    *first = p;
    root->npeers++;
    *result = p;
    return DMA_OK;
}

/* Our address goes to the rank, and its comes. Without the lock: the messages beneath may run progress, which comes back here,
 * or to whoever else needs the lock. */
static dma_status_t introduce(dma_cluster_t *root, dma_cluster_peer_t *p)
{
    char *ours = p->card + half_card(root);
    size_t bytes;
    const void *address = root->wire->get_address(root->net, &bytes);
    uint32_t size = (uint32_t)bytes;
    dma_status_t status;

    memcpy(ours, &size, sizeof(size));
    memcpy(ours + sizeof(size), address, bytes);
    status = root->wire->address_recv(root->handle, p->card, half_card(root), p->rank, &p->ask);
    if (status != DMA_OK) {
        p->ask = NULL;
        return status;
    }
    status = root->wire->address_send(root->handle, ours, sizeof(size) + bytes, p->rank, &p->offer);
    if (status != DMA_OK) {
        p->offer = NULL;
    }
    return status;
}

static dma_status_t get_to_know(dma_cluster_t *root, dma_cluster_peer_t *p)
{
    dma_net_tag_t tag = alarm_tag(root);
    dma_status_t status = p->ask ? root->wire->address_test(root->handle, &p->ask) : DMA_OK;
    uint32_t size;
    void *peer;

    if (status == DMA_OK && p->offer) {
        status = root->wire->address_test(root->handle, &p->offer);
    }
    if (status != DMA_OK) {
        return status;
    }
    memcpy(&size, p->card, sizeof(size));
    if (size > root->address_bytes) {
        return DMA_ERR_NET;
    }
    status = root->wire->peer_create(root->net, root->handle, p->rank, p->card + sizeof(size), size, &peer);
    if (status != DMA_OK) {
        return status;
    }
    free(p->card);
    p->card = NULL;
    p->peer = peer;
    return root->wire->irecv(root->net, peer, &tag, &p->heard, sizeof(p->heard), &p->alarm);
}

dma_status_t dma_cluster_connect_peer(dma_cluster_t *c, int rank, void **peer)
{
    dma_cluster_t *root = c->root;
    dma_cluster_peer_t *p;
    dma_status_t status;

    pthread_mutex_lock(&root->lock);
    p = find(root, rank);
    status = p ? p->status : add_peer(root, rank, &p);
    if (status == DMA_OK && !p->begun) {
        p->begun = true;
        p->status = DMA_AGAIN; /* for whoever comes here meanwhile: the peer is ours alone */
        pthread_mutex_unlock(&root->lock);
        status = introduce(root, p);
        pthread_mutex_lock(&root->lock);
        p->status = status;
    }
    if (status == DMA_OK && !p->peer) {
        status = get_to_know(root, p);
    }
    if (status == DMA_OK) {
        *peer = p->peer;
    } else if (status < 0 && p) {
        p->status = status;
    }
    pthread_mutex_unlock(&root->lock);
    return status;
}

/* Each rank whom we meet in set-up, until `visit` returns an error. */
static dma_status_t each_neighbour(dma_cluster_t *c, dma_status_t (*visit)(dma_cluster_t *, int, void *), void *arg)
{
    const dma_node_map_t *l = &c->node_map;
    int size = dma_node_map_size(l, l->node);
    dma_status_t status = DMA_OK;

    for (int k = -1; k < 2 && l->nnodes > 1; k += 2) {
        int node = dma_node_map_shift(l, l->node, k), theirs = dma_node_map_size(l, node);

        for (int j = 0; j < theirs && status == DMA_OK; j++) {
            int i = k > 0 ? l->index : j, n = k > 0 ? theirs : size, to = k > 0 ? j : l->index;

            if (i % n == to || (i + 1) % n == to) {
                status = visit(c, dma_node_map_rank(l, node, j), arg);
            }
        }
    }
    return status;
}

static dma_status_t reserve(dma_cluster_t *c, int rank, void *arg)
{
    dma_cluster_peer_t *p;

    (void)arg;
    return find(c, rank) ? DMA_OK : add_peer(c, rank, &p);
}

dma_status_t dma_cluster_alloc_neighbors(dma_cluster_t *c)
{
    return each_neighbour(c, reserve, NULL);
}

typedef struct meeting {
    dma_status_t error;
    bool under_way;
    int lost; /* whom the error is about */
} meeting_t;

/* An error is no reason not to meet the others, who wait for us. */
static dma_status_t meet_neighbour(dma_cluster_t *c, int rank, void *arg)
{
    meeting_t *m = arg;
    void *peer;
    dma_status_t status = dma_cluster_connect_peer(c, rank, &peer);

    m->under_way = m->under_way || status == DMA_AGAIN;
    if (status < 0) {
        m->error = status;
        m->lost = rank;
    }
    return DMA_OK;
}

dma_status_t dma_cluster_connect_neighbors(dma_cluster_t *c, int *lost)
{
    meeting_t m = {.lost = *lost};

    each_neighbour(c, meet_neighbour, &m);
    *lost = m.lost;
    return m.under_way ? DMA_AGAIN : m.error;
}

/* The peer is in the call that we are in and thinks otherwise of it. */
static dma_status_t compare(const dma_cluster_t *c, const dma_cluster_notice_t *theirs)
{
    uint32_t differs = theirs->note ^ c->call.note;

    if (!c->running || !c->call.plan || !differs || theirs->comm != c->id || theirs->owner != c->owner ||
        theirs->seq != c->call.seq) {
        return DMA_OK;
    }
    return differs & 0xff ? DMA_ERR_MISMATCH : DMA_ERR_TRUNCATE;
}

/* The receive for a peer's words has ended, or cannot be posted. A peer that has left in peace has no more to say: it had done
 * its part of all calls, and who lacks data of it learns that from the data's receive. */
static dma_status_t unless_left(const dma_cluster_t *root, const dma_cluster_peer_t *p, dma_status_t status)
{
    return status == DMA_ERR_PEER && root->wire->peer_closed(root->net, p->peer) ? DMA_AGAIN : status;
}

/* What has come from a peer, if anything has. */
static dma_status_t hear(dma_cluster_t *c, dma_cluster_peer_t *p)
{
    dma_cluster_t *root = c->root;
    dma_net_tag_t tag = alarm_tag(root);
    dma_status_t status = p->alarm ? unless_left(root, p, root->wire->test(root->net, &p->alarm)) : DMA_AGAIN;

    if (p->told) {
        root->wire->test(root->net, &p->told);
    }
    if (status == DMA_OK) {
        p->last = p->heard;
        status = p->heard.status < 0
                     ? (dma_status_t)p->heard.status
                     : unless_left(root, p,
                                   root->wire->irecv(root->net, p->peer, &tag, &p->heard, sizeof(p->heard), &p->alarm));
    }
    return status < 0 ? status : compare(c, &p->last);
}

dma_status_t dma_cluster_poll_notices(dma_cluster_t *c)
{
    dma_cluster_t *root = c->root;
    dma_status_t status = DMA_OK;
    uint32_t n;

    pthread_mutex_lock(&root->lock);
    n = (root->chains + LOOKS - 1) / LOOKS;
    n = n < LISTEN ? n : LISTEN;
    for (uint32_t i = 0; i < n && status == DMA_OK; i++) {
        for (dma_cluster_peer_t *p = root->peers[root->heard++ & (root->chains - 1)]; p && status == DMA_OK;
             p = p->next) {
            status = hear(c, p);
        }
    }
    pthread_mutex_unlock(&root->lock);
    return status;
}

/* A request that is not needed any more makes room for another: who sounds an alarm has heard enough. */
static bool spare_request(dma_cluster_t *root, dma_cluster_peer_t *p)
{
    if (!p->alarm) {
        return false;
    }
    root->wire->cancel(root->net, p->alarm);
    return root->wire->test(root->net, &p->alarm) != DMA_AGAIN;
}

/* To all whom we have met and who have taken our last words. */
static void say(dma_cluster_t *root, const dma_cluster_notice_t *words)
{
    dma_net_tag_t tag = alarm_tag(root);

    for (uint32_t i = 0; i < root->chains; i++) {
        for (dma_cluster_peer_t *p = root->peers[i]; p; p = p->next) {
            bool alarm = words->status != DMA_OK;
            dma_cluster_notice_t *copy = alarm ? &p->cried : &p->said;
            void **req = alarm ? &p->alert : &p->told;
            dma_status_t status;

            if (!p->peer || *req) {
                continue;
            }
            *copy = *words; /* it may be on its way when we are gone */
            /* at worst the peer is gone, and does not need it */
            status = root->wire->isend(root->net, p->peer, &tag, copy, sizeof(*copy), req);
            if (status == DMA_ERR_NOMEM && alarm && spare_request(root, p)) {
                status = root->wire->isend(root->net, p->peer, &tag, copy, sizeof(*copy), req);
            }
            if (status != DMA_OK) {
                *req = NULL;
            }
        }
    }
}

void dma_cluster_announce_call(dma_cluster_t *c)
{
    dma_cluster_notice_t words = {
        .status = DMA_OK, .comm = c->id, .owner = c->owner, .seq = c->call.seq, .note = c->call.note};
    double now;

    if (!c->running || !c->call.plan) {
        return;
    }
    now = dma_now();
    if (!c->call.since) {
        c->call.since = now;
        c->call.pause = TELL_SECONDS;
    } else if (now - c->call.since > c->call.pause) {
        c->call.since = now;
        c->call.pause *= 2;
        pthread_mutex_lock(&c->root->lock);
        say(c->root, &words);
        pthread_mutex_unlock(&c->root->lock);
    }
}

void dma_cluster_send_alarm(dma_cluster_t *c, dma_status_t status)
{
    dma_cluster_t *root = c->root;
    int none = 0;

    atomic_compare_exchange_strong(&root->alarm, &none, (int)status);
    pthread_mutex_lock(&root->lock);
    if (!root->alerted) {
        say(root, &(dma_cluster_notice_t){.status = atomic_load(&root->alarm)});
    }
    root->alerted = true;
    pthread_mutex_unlock(&root->lock);
    root->wire->progress(root->net);
}

void dma_cluster_close_peers(dma_cluster_t *c)
{
    double end = dma_now() + LAST_SECONDS;

    for (uint32_t i = 0; i < c->chains; i++) {
        dma_cluster_peer_t *next;

        for (dma_cluster_peer_t *p = c->peers[i]; p; p = next) {
            next = p->next;
            if (p->alarm) {
                c->wire->cancel(c->net, p->alarm);
            }
            while ((p->alarm && c->wire->test(c->net, &p->alarm) == DMA_AGAIN) ||
                   (p->alert && c->wire->test(c->net, &p->alert) == DMA_AGAIN) ||
                   (p->told && c->wire->test(c->net, &p->told) == DMA_AGAIN)) {
                if (dma_now() > end) {
                    break;
                }
                sched_yield();
                c->wire->progress(c->net);
            }
            if (!p->alarm && !p->alert && !p->told && !p->ask && !p->offer) { /* else it is still written to */
                free(p->card);
                free(p);
            }
        }
    }
    free(c->peers);
}
