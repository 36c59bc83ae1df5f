/* A network in memory: see libwire.h. */
#include "libwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libunit.h"

typedef struct letter {
    struct letter *next;
    int from, to;
    dma_net_tag_t tag;
    bool over;
    void *copy;       /* of what is sent; NULL: the bytes are read from */
    const void *data; /* there, */
    void *into;       /* where a receive stores the bytes */
    size_t bytes;
    dma_status_t status;
} letter_t;

typedef struct membership {
    struct membership *next;
    int rank;
    uint32_t owner, comm;
    bool over;
} membership_t;

static struct {
    pthread_mutex_t lock;
    letter_t *sent, *wanted;
    membership_t *memberships;
    bool gone[WIRE_RANKS], said_goodbye[WIRE_RANKS], cut[WIRE_RANKS][WIRE_RANKS], late, eager;
    unsigned begun[WIRE_RANKS], ended[WIRE_RANKS];
    int marks[WIRE_RANKS]; /* whose addresses are ranks */
} net = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local rank_t *self;

static bool fits(const letter_t *a, const letter_t *b)
{
    return a->from == b->from && a->to == b->to && a->tag.comm == b->tag.comm && a->tag.owner == b->tag.owner &&
           a->tag.seq == b->tag.seq && a->tag.step == b->tag.step;
}

/* No message goes from one to the other any more. */
static bool parted(int from, int to)
{
    return net.gone[from] || net.gone[to] || net.cut[from][to];
}

static void append(letter_t **list, letter_t *l)
{
    while (*list) {
        list = &(*list)->next;
    }
    *list = l;
}

/* What remains of a send that has ended: its request, if somebody still has it. */
static void sent(letter_t *s, dma_status_t status)
{
    net.ended[s->from]++;
    if (s->copy) {
        free(s->copy);
        free(s);
        return;
    }
    s->over = true;
    s->status = status;
}

static void receive(letter_t *to, letter_t *from)
{
    to->over = true;
    to->status = (to->tag.note ^ from->tag.note) & 0xff                       ? DMA_ERR_MISMATCH
                 : to->tag.note != from->tag.note || to->bytes != from->bytes ? DMA_ERR_TRUNCATE
                                                                              : DMA_OK;
    if (to->status == DMA_OK && to->bytes) {
        memcpy(to->into, from->copy ? from->copy : from->data, to->bytes);
    }
    sent(from, DMA_OK);
}

/* Removes the first matching entry from a list and returns it. */
static letter_t *take(letter_t **list, const letter_t *with)
{
    for (; *list; list = &(*list)->next) {
        if (fits(*list, with)) {
            letter_t *l = *list;

            *list = l->next;
            return l;
        }
    }
    return NULL;
}

static dma_status_t net_open(void **result)
{
    net.marks[self->rank] = self->rank;
    *result = &net.marks[self->rank];
    return DMA_OK;
}

static void net_close(void *n)
{
    (void)n;
}

/* The address of rank 0 is longer than the others. */
static size_t address_bytes(int rank)
{
    return (rank ? 1 : 2) * sizeof(int);
}

uint32_t wire_address_bytes;

static uint32_t said_bytes(int rank)
{
    return wire_address_bytes ? wire_address_bytes : (uint32_t)address_bytes(rank);
}

/* Every rank has an address of its own. */
static void net_place(void *n, dma_net_place_t *place)
{
    int rank = *(int *)n;

    *place = (dma_net_place_t){.space = (uint64_t)rank,
                               .address_bytes = said_bytes(rank),
                               .naddresses = 1,
                               .nhost_addresses = 1,
                               .descriptors = UINT32_MAX,
                               .addresses = {(uint32_t)rank}};
}

static dma_status_t net_admit(void *n, const uint32_t *addresses, uint32_t count)
{
    (void)n;
    (void)addresses;
    (void)count;
    return DMA_OK;
}

static bool net_connected(void *n, void *comm, int rank)
{
    (void)n;
    (void)comm;
    (void)rank;
    return false;
}

static const void *net_address(void *n, size_t *bytes)
{
    *bytes = address_bytes(*(int *)n);
    return n;
}

static bool net_over_tcp(void *n)
{
    (void)n;
    return false;
}

/* Both kinds of request have one size here, because the host of threads requires it. */
static dma_status_t net_offer(void *comm, const void *buf, size_t bytes, int rank, void **req)
{
    size_t most = sizeof(uint32_t) + said_bytes(0);
    char *padded = calloc(1, most);

    (void)comm;
    threads_keep(self, padded);
    memcpy(padded, buf, bytes);
    return threads_host.isend(group_handle(self->job->groups[1], self->rank), padded, most, rank, 0, req);
}

static dma_status_t net_ask(void *comm, void *buf, size_t bytes, int rank, void **req)
{
    (void)comm;
    return threads_host.irecv(group_handle(self->job->groups[1], self->rank), buf, bytes, rank, 0, req);
}

static dma_status_t net_heard(void *comm, void **req)
{
    (void)comm;
    return threads_host.test(group_handle(self->job->groups[1], self->rank), req);
}

static dma_status_t net_peer(void *n, void *comm, int rank, const void *address, size_t bytes, void **peer)
{
    (void)n;
    (void)comm;
    must(self, bytes == address_bytes(rank) && *(const int *)address == rank, "the address of another");
    *peer = &net.marks[rank];
    return DMA_OK;
}

static uint32_t net_self(void)
{
    return (uint32_t)self->rank;
}

static membership_t *membership(int rank, uint32_t comm, uint32_t owner)
{
    membership_t *m = net.memberships;

    while (m && (m->rank != rank || m->owner != owner || m->comm != comm)) {
        m = m->next;
    }
    return m;
}

static dma_status_t net_join(void *n, uint32_t comm, uint32_t owner)
{
    membership_t *m = malloc(sizeof(*m));

    pthread_mutex_lock(&net.lock);
    must(self, !membership(*(int *)n, comm, owner), "joined twice");
    *m = (membership_t){.next = net.memberships, .rank = *(int *)n, .owner = owner, .comm = comm};
    net.memberships = m;
    pthread_mutex_unlock(&net.lock);
    return DMA_OK;
}

static void net_leave(void *n, uint32_t comm, uint32_t owner)
{
    membership_t *m;

    pthread_mutex_lock(&net.lock);
    m = membership(*(int *)n, comm, owner);
    must(self, m, "it had not joined");
    m->over = true;
    for (letter_t **link = &net.sent; *link;) {
        letter_t *l = *link;

        if (l->to == *(int *)n && l->tag.owner == owner && l->tag.comm == comm) {
            *link = l->next;
            sent(l, DMA_OK);
        } else {
            link = &l->next;
        }
    }
    pthread_mutex_unlock(&net.lock);
}

static dma_status_t net_isend(void *n, void *peer, const dma_net_tag_t *tag, const void *buf, size_t bytes, void **req)
{
    letter_t *l = calloc(1, sizeof(*l)), *r;
    const membership_t *m;

    *l = (letter_t){.from = *(int *)n, .to = *(int *)peer, .tag = *tag, .data = buf, .bytes = bytes};
    pthread_mutex_lock(&net.lock);
    net.begun[l->from]++;
    *req = l;
    if (tag->step == UINT32_MAX || net.eager || (!net.late && threads_random(self, 2))) { /* nobody waits for alarms */
        letter_t *mine = calloc(1, sizeof(*mine));

        mine->over = true;
        *req = mine;
        l->copy = malloc(bytes + 1);
        memcpy(l->copy, buf, bytes);
    }
    if (parted(l->from, l->to)) {
        ((letter_t *)*req)->status = DMA_ERR_PEER;
        sent(l, DMA_ERR_PEER);
    } else if ((r = take(&net.wanted, l))) {
        receive(r, l);
    } else {
        m = membership(l->to, tag->comm, tag->owner);
        must(self, m, "a message to rank %d, which has not joined", l->to);
        if (m->over) {
            sent(l, DMA_OK);
        } else {
            append(&net.sent, l);
        }
    }
    pthread_mutex_unlock(&net.lock);
    return DMA_OK;
}

static dma_status_t net_irecv(void *n, void *peer, const dma_net_tag_t *tag, void *buf, size_t bytes, void **req)
{
    letter_t *l = calloc(1, sizeof(*l)), *s;
    dma_status_t status = DMA_OK;

    *l = (letter_t){.from = *(int *)peer, .to = *(int *)n, .tag = *tag, .into = buf, .bytes = bytes};
    pthread_mutex_lock(&net.lock);
    if ((s = take(&net.sent, l))) {
        receive(l, s);
    } else if (parted(l->from, l->to)) {
        free(l);
        status = DMA_ERR_PEER;
    } else {
        append(&net.wanted, l);
    }
    pthread_mutex_unlock(&net.lock);
    if (status == DMA_OK) {
        *req = l;
    }
    return status;
}

static dma_status_t net_test(void *n, void **req)
{
    letter_t *l = *req;
    dma_status_t status = DMA_AGAIN;

    (void)n;
    pthread_mutex_lock(&net.lock);
    if (l->over) {
        status = l->status;
        free(l);
        *req = NULL;
    }
    pthread_mutex_unlock(&net.lock);
    return status;
}

/* Removes it from the list that it is in. */
static bool withdraw(letter_t **link, const letter_t *l)
{
    for (; *link; link = &(*link)->next) {
        if (*link == l) {
            *link = l->next;
            return true;
        }
    }
    return false;
}

static void net_cancel(void *n, void *req)
{
    letter_t *l = req;

    (void)n;
    pthread_mutex_lock(&net.lock);
    if (!l->over && withdraw(&net.wanted, l)) { /* a send that has begun waits for the other side */
        l->over = true;
        l->status = DMA_ERR_NET;
    }
    pthread_mutex_unlock(&net.lock);
}

static bool net_left(void *n, void *peer)
{
    bool left;

    (void)n;
    pthread_mutex_lock(&net.lock);
    left = net.said_goodbye[*(int *)peer];
    pthread_mutex_unlock(&net.lock);
    return left;
}

static void net_progress(void *n)
{
    (void)n;
}

/* Ends what can never complete. */
static void part(void)
{
    for (letter_t **link = &net.wanted; *link;) {
        letter_t *l = *link;

        if (parted(l->from, l->to)) {
            *link = l->next;
            l->over = true;
            l->status = DMA_ERR_PEER;
        } else {
            link = &l->next;
        }
    }
    for (letter_t **link = &net.sent; *link;) {
        letter_t *l = *link;

        if (!l->copy && parted(l->from, l->to)) {
            *link = l->next;
            sent(l, DMA_ERR_PEER);
        } else {
            link = &l->next;
        }
    }
}

static void net_give_up(void *n, void *req)
{
    const letter_t *l = req;

    (void)n;
    pthread_mutex_lock(&net.lock);
    net.cut[l->from][l->to] = net.cut[l->to][l->from] = net.cut[l->from][l->to] || !l->over;
    part();
    pthread_mutex_unlock(&net.lock);
}

void wire_leave(int rank)
{
    pthread_mutex_lock(&net.lock);
    net.gone[rank] = true;
    part();
    pthread_mutex_unlock(&net.lock);
}

void wire_goodbye(int rank)
{
    pthread_mutex_lock(&net.lock);
    net.said_goodbye[rank] = true;
    pthread_mutex_unlock(&net.lock);
    wire_leave(rank);
}

void wire_late(void)
{
    net.late = true;
}

void wire_eager(void)
{
    net.eager = true;
}

static unsigned counted(const unsigned *counter)
{
    unsigned n;

    pthread_mutex_lock(&net.lock);
    n = *counter;
    pthread_mutex_unlock(&net.lock);
    return n;
}

unsigned wire_begun(int rank)
{
    return counted(&net.begun[rank]);
}

unsigned wire_ended(int rank)
{
    return counted(&net.ended[rank]);
}

unsigned wire_holds(int rank)
{
    unsigned n = 0;

    pthread_mutex_lock(&net.lock);
    for (const letter_t *l = net.sent; l; l = l->next) {
        n += l->from == rank && !l->copy;
    }
    for (const letter_t *l = net.wanted; l; l = l->next) {
        n += l->to == rank && l->tag.step != UINT32_MAX;
    }
    pthread_mutex_unlock(&net.lock);
    return n;
}

void wire_enter(rank_t *r)
{
    self = r;
}

dma_comm_t *wire_comm(rank_t *r, int first)
{
    dma_comm_config_t config = {.handle = group_handle(r->job->groups[0], r->rank),
                                .rank = r->rank,
                                .nranks = r->n,
                                .text = "several nodes",
                                .nodes = true,
                                .first = first,
                                .first_calls = r->job->params.net_first_calls};
    dma_comm_t *comm = NULL;

    wire_enter(r);
    must(r, dma_comm_create(r->proc, &config, &comm) == DMA_OK, "dma_comm_create");
    return comm;
}

int wire_rank(void)
{
    return self->rank;
}

void wire_end(void)
{
    membership_t *m;

    ck_assert_ptr_null(net.wanted);
    ck_assert_ptr_null(net.sent);
    while ((m = net.memberships)) {
        net.memberships = m->next;
        free(m);
    }
    memset(net.gone, 0, sizeof(net.gone));
    memset(net.said_goodbye, 0, sizeof(net.said_goodbye));
    memset(net.cut, 0, sizeof(net.cut));
    memset(net.begun, 0, sizeof(net.begun));
    memset(net.ended, 0, sizeof(net.ended));
    net.late = net.eager = false;
}

static void net_trouble(void *n, char *text, size_t bytes)
{
    (void)n;
    pthread_mutex_lock(&net.lock);
    for (int rank = 0; rank < WIRE_RANKS; rank++) {
        if (net.gone[rank]) {
            snprintf(text, bytes, "rank %d has left", rank);
        }
    }
    pthread_mutex_unlock(&net.lock);
}

const dma_net_ops_t wire_threads = {
    .open = net_open,
    .close = net_close,
    .get_place = net_place,
    .admit = net_admit,
    .is_connected = net_connected,
    .get_address = net_address,
    .is_tcp_only = net_over_tcp,
    .address_send = net_offer,
    .address_recv = net_ask,
    .address_test = net_heard,
    .peer_create = net_peer,
    .process_id = net_self,
    .comm_register = net_join,
    .comm_unregister = net_leave,
    .isend = net_isend,
    .irecv = net_irecv,
    .test = net_test,
    .cancel = net_cancel,
    .abort = net_give_up,
    .peer_closed = net_left,
    .progress = net_progress,
    .last_error = net_trouble,
};
