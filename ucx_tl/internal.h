/*
 * What the files of ucx_tl/ share.
 *
 * Everything here is guarded by net->lock, but for what is atomic. UCX calls us back only out of ucp_worker_progress and
 * the closing of endpoints, so always with the lock held; the callbacks only note what happened, and dma_net_settle acts
 * on it after progress has returned.
 *
 *     a request     POSTED --------> RUNNING --------> ENDED       `ended` is its last store, a release: the tester may
 *                   a receive,       UCX has it                    free it at once
 *                   in the table
 *
 *     a message     comes first: kept in a table until a receive takes it or its communicator is left; else it takes the
 *                   receive out of the other table
 *
 *     a peer        named -> connected -> gone          never back: a process that failed once is not trusted again
 *
 * Every peer over TCP has two endpoints. The kernel's keepalive probes only a connection on which nothing is outstanding;
 * with data under way it retransmits instead, for a quarter of an hour. (A user timeout would end that earlier, but also
 * ends a connection to a process that is stopped with a full window.) So a second connection lies idle beside the one with
 * the data: when its keepalive fails the peer is gone, and a stopped process's kernel still answers on it.
 */
#ifndef DMA_UCX_TL_INTERNAL_H
#define DMA_UCX_TL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "calls.h"
#include "dma/clock.h"
#include "ucx_tl.h"

#define DMA_NET_AM 1 /* the id of our active messages */

typedef enum dma_net_kind {
    DMA_NET_MESSAGE = 1,
    DMA_NET_HELLO,
    DMA_NET_BYE,
    DMA_NET_QUIT,
    DMA_NET_BACK
} dma_net_kind_t;

/* On the wire, in the byte order of the job's hosts. */
typedef struct dma_net_head {
    dma_net_tag_t tag;
    uint32_t kind;
    uint64_t key; /* of the sender */
} dma_net_head_t;
_Static_assert(sizeof(dma_net_head_t) == 32, "the header has no holes");

/* What a table holds: a posted receive, a kept message, or a communicator that has been joined (comm and owner alone). */
typedef struct dma_net_entry {
    dma_net_head_t head; /* key: the sender's */
    struct dma_net_entry *next;
} dma_net_entry_t;

/* Chains by hash, as many as it takes to keep them short, and with no memory for more the same ones. All zero: empty. */
#define DMA_NET_FEW 256
typedef struct dma_net_table {
    dma_net_entry_t **many; /* the chains, if there are more than a few */
    uint32_t chains;        /* a power of 2, or 0: the few */
    uint32_t held;
    dma_net_entry_t *few[DMA_NET_FEW];
} dma_net_table_t;

typedef struct dma_net_kept {
    dma_net_entry_t entry;
    void *data; /* UCX's; NULL when there are no bytes */
    size_t bytes;
    bool promise; /* the data is still with the sender (rendezvous) */
    dma_net_req_t *taker;
    struct dma_net_kept *next; /* taken, to be moved or dropped after progress */
} dma_net_kept_t;

struct dma_net_req {
    dma_net_entry_t entry; /* of a send: its head, which UCX reads until it has left */
    dma_net_peer_t *peer;
    void *buffer;
    size_t bytes;
    dma_net_memory_t memory;
    bool send;
    bool running;   /* UCX has it */
    bool abandoned; /* UCX has it and may have it until the worker ends; we do not wait for that */
    dma_status_t status;
    _Atomic bool ended;
    dma_net_req_t *next; /* free */
};

/* Requests are never freed one by one: UCX may still have one whose tester has gone. */
#define DMA_NET_SLAB 64
typedef struct dma_net_slab {
    struct dma_net_slab *next;
    dma_net_req_t reqs[DMA_NET_SLAB];
} dma_net_slab_t;

struct dma_net_peer {
    dma_net_entry_t entry; /* in `known`: its key alone */
    dma_net_t *net;
    void *address; /* until it is connected */
    size_t address_bytes;
    ucp_ep_h ep, watch;
    unsigned sends, recvs; /* running */
    _Atomic dma_status_t status;
    double deadline;        /* for UCX to end what it has of one that is gone */
    _Atomic bool left;      /* said goodbye */
    dma_net_peer_t *next;   /* of all */
    dma_net_peer_t *broken; /* list of those to be given up, then of those that UCX has requests of */
    dma_net_peer_t *tell;   /* list of those to be told of */
};

struct dma_net {
    pthread_mutex_t lock;
    dma_net_config_t config;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_bytes;
    uint64_t memory_types;
    bool over_tcp;
    dma_net_table_t posted, kept, joined, known;
    dma_net_peer_t *peers; /* those in `known` */
    dma_net_peer_t *broken, *lingering, *tell;
    const dma_net_peer_t *troubled; /* the last one, */
    ucs_status_t trouble;           /* and what it was */
    dma_net_kept_t *taken, **taken_tail;
    dma_net_req_t *free;
    dma_net_slab_t *slabs;
    _Atomic unsigned active;
    dma_net_head_t hello, bye, quit; /* UCX reads them until they have left */
    unsigned ended;                  /* since progress last looked */
    unsigned closing;                /* endpoints that UCX has not let go of */
    bool lost;                       /* a message could not be kept */
};

/* match.c */
uint32_t dma_net_hash(const dma_net_head_t *head);
void dma_net_table_add(dma_net_table_t *table, dma_net_entry_t *entry);
/* Takes the oldest with this tag and key out; NULL: there is none. */
dma_net_entry_t *dma_net_table_take(dma_net_table_t *table, const dma_net_head_t *head);
/* The same, and leaves it there. */
dma_net_entry_t *dma_net_table_get(dma_net_table_t *table, const dma_net_head_t *head);
bool dma_net_table_remove(dma_net_table_t *table, const dma_net_entry_t *entry);
/* Takes out one entry that `wanted` says yes to. */
dma_net_entry_t *dma_net_table_find(dma_net_table_t *table, bool (*wanted)(const dma_net_entry_t *, const void *),
                                    const void *arg);
/* The table is empty then; its entries are the caller's. */
void dma_net_table_free(dma_net_table_t *table);

/* listen.c: when the kernel probes an idle connection: idle + count * interval are the whole seconds of `seconds`, at least
 * 2, of which at least half, and from 5 on three quarters, may pass without an answer. And sockets that listen. */
typedef struct dma_net_probes {
    int idle, interval, count; /* seconds, seconds, number */
} dma_net_probes_t;
dma_net_probes_t dma_net_probes(double seconds);
#define DMA_NET_FDS 8192
typedef struct dma_net_listeners {
    unsigned char fd[DMA_NET_FDS / 8];
} dma_net_listeners_t;
void dma_net_listeners(dma_net_listeners_t *found);
void dma_net_watch_new_listeners(dma_net_listeners_t *before, double seconds);

/* message.c */
/* Ends the peer's requests that UCX does not end. */
void dma_net_abandon(dma_net_t *net, dma_net_peer_t *peer);
ucs_status_t dma_net_arrived(void *net, const void *header, size_t header_bytes, void *data, size_t bytes,
                             const ucp_am_recv_param_t *param);
void dma_net_end(dma_net_t *net, dma_net_req_t *req, dma_status_t status);
void dma_net_drop(dma_net_t *net, dma_net_kept_t *kept);
/* Starts what arrived for receives during progress. */
void dma_net_start_taken(dma_net_t *net);

/* peer.c */
dma_net_peer_t *dma_net_peer_find(dma_net_t *net, uint64_t key);
dma_status_t dma_net_connect_locked(dma_net_peer_t *peer);
/* Sends one of our own: hello, so that every transport connects, where the data goes; goodbye, or that the peer is given up,
 * on the idle endpoint, whose only message it is. */
void dma_net_say(dma_net_peer_t *peer, dma_net_kind_t kind);
/* Asks the peer to drop a message of ours that it has not received yet. */
void dma_net_take_back(const dma_net_req_t *send);
void dma_net_break(dma_net_peer_t *peer, ucs_status_t reason);
/* What dma_net_trouble tells from now on. */
void dma_net_note(const dma_net_peer_t *peer, ucs_status_t trouble);
/* Ends all that peers which broke still owe. */
void dma_net_bury(dma_net_t *net);
void dma_net_close(dma_net_peer_t *peer);

/* transports.c. `other` are those to other nodes that are not TCP: UCP itself keeps watch over their connections, the kernel
 * over TCP's. */
typedef struct dma_net_transports {
    bool tcp, other;
} dma_net_transports_t;
dma_net_transports_t dma_net_transports_of(ucp_context_h context);
/* The same of what UCX prints, which is cut up. */
dma_net_transports_t dma_net_transports(char *text);

/* progress.c */
void dma_net_move(dma_net_t *net);

#endif
