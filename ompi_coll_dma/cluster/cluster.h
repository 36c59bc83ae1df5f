/*
 * Communicators over several nodes.
 *
 * Such a communicator has a layout, which its ranks agree on in set-up, and beneath it one of its node's ranks, with shared
 * memory and engines, for the node-local parts of its calls. A call is a plan of three lanes (plan/cluster/cluster.h), run by
 * cluster_call.c; one call of a communicator runs at a time, because the node-local parts of all its calls share the
 * order of the communicator beneath.
 *
 * On the network a message is one or several of at most `piece` bytes, whoever has it, whatever memory it is in and whatever
 * algorithm: their number is in the tag's note, and what the blocks' size is if all have the same. Pieces have the same tag, so
 * they match in order. A rank whose memory is a device's passes them through the slots of a relay (relay.h), and what its node's
 * ranks exchange goes to the communicator beneath as it is: there they find out whether their GPUs can do it. So what kind of
 * memory a rank has is nobody else's concern between nodes, and may change with every call.
 *
 *     SENT       FILLS ---> FILLED ---> TRAVELS ---> OVER        a slot's piece; without a slot it begins FILLED
 *                engine     its turn    network
 *     RECEIVED   TRAVELS ---> LANDED ---> DRAINS ---> OVER       without a slot it is OVER when it has travelled
 *                network      its turn    engine
 *
 * Pieces of a lane begin and are sent in order. Counters of lanes (plan/cluster/cluster.h) count an operation when its last piece
 * is OVER.
 *
 * Other peers introduce themselves to each other when a call first needs them: each sends the other its address, once per pair
 * of ranks and communicator, no matter who needs whom first, since both need each other in the same call. Channels share
 * the peers of the communicator they belong to.
 *
 * In set-up no rank may fail alone, since others wait for its messages. So when the first messages have said how much memory it
 * takes, every rank allocates that, and before it sends any more all tell each other whether they have it: if one has not,
 * all step aside.
 *
 * Failure. A rank that fails poisons the communicator beneath, for those of its node, and sends an alarm to every peer it
 * has met; each of them has a receive for it posted, which also ends when the peer is gone. Whoever is alarmed fails and
 * passes the alarm on. Where there is no memory for its message, that of the receive will do. So that this reaches all, each rank meets some of the next node in set-up: those of its own index and
 * the one after it, modulo their number. Ranks that follow each other in a node have one of these in common, so everybody is
 * connected with everybody before there is a call that can fail. A rank on the way may have nothing to do in that call, or have
 * ended it: so READY communicators without a call listen, too, from the network's progress (dma_proc_poll_notices). Where the network does not connect neighbours, all step aside.
 * A channel's set-up is such a wait, too: a rank that has seen the failure does not come to it, and one that fails before it
 * has a channel fails the communicator. So channels listen to its peers and look at the communicator beneath it from their
 * first message on, and sound its alarm.
 * A rank that has left in peace, as at the end of its last session, is no failure, unless somebody still waits for its data.
 * What has been sent to a rank that has failed, or has left the communicator, goes back: nobody waits for it to be taken.
 *
 * Disagreement. Ranks that call with different sizes may have chosen different algorithms, whose messages never meet. So who
 * has waited for a second tells all peers which call it is in and what it thinks of it, and again from time to time; a peer
 * that is in the same call and thinks otherwise fails. Nobody fails because of the time itself.
 */
#ifndef DMA_TASK_CLUSTER_H
#define DMA_TASK_CLUSTER_H

#include "core/comm.h"
#include "core/setup/bootstrap.h"
#include "dma/net.h"
#include "plan/cluster/cluster.h"

#define CLUSTER_MEMO 8 /* plans of calls with equal blocks that are kept */

/* What ranks say to each other beside the calls: an alarm, or which call they are in. */
typedef struct dma_cluster_notice {
    int32_t status; /* DMA_OK: no alarm */
    uint32_t comm, owner, seq, note;
} dma_cluster_notice_t;

typedef struct dma_cluster_peer {
    struct dma_cluster_peer *next;
    int rank;
    bool begun;                                    /* the introduction */
    dma_status_t status;                           /* that it has failed with; DMA_AGAIN: it is just being begun */
    void *peer;                                    /* the network's; NULL: not introduced yet */
    void *offer, *ask;                             /* introduction under way */
    char *card;                                    /* what comes with it: the size of an address, and the address */
    void *alarm, *alert;                           /* the receive for its words; the send of our alarm */
    void *told;                                    /* the send of our other words */
    dma_cluster_notice_t heard, said, cried, last; /* what comes; what goes, of an alarm; what has come */
} dma_cluster_peer_t;

#define CLUSTER_CHAINS 4 /* at first */

typedef struct dma_cluster_memo {
    uint64_t key; /* of operation, in place, bytes; 0: empty */
    dma_cluster_plan_t *plan;
} dma_cluster_memo_t;

/*
 * Plans of calls whose blocks have sizes of their own: of the last two that differed, as in a transform there and back. A
 * plan follows from its request and from what is fixed with the communicator, so a rank may find its own kept while
 * others build theirs. While it runs it reads the numbers it was made from, which are the call's: those of a kept plan are
 * copies, and the call's addresses are not among them.
 */
typedef struct dma_cluster_kept {
    dma_cluster_plan_t *plan; /* NULL: none */
    uint64_t *numbers;        /* by rank: bytes and displacements of what is sent, then of what is received */
} dma_cluster_kept_t;

#define CLUSTER_KEPT 2
/* Bytes of a plan that is kept, at most: 16 thousand messages each way, as for one to everybody on 2000 nodes of 8, or for
 * blocks of 1 MiB on 64. A longer one is built again, which adds a small part to what its messages take: it is not worth
 * more memory of every rank, twice per communicator and once per persistent call. */
#define CLUSTER_KEPT_BYTES (5u << 20)

typedef enum dma_piece_state {
    PIECE_FILLS,
    PIECE_FILLED,
    PIECE_TRAVELS,
    PIECE_LANDED,
    PIECE_DRAINS,
    PIECE_OVER
} dma_piece_state_t;

typedef struct dma_piece {
    uint32_t op, number; /* of the lane, and in it */
    dma_piece_state_t state;
    bool slot; /* it goes through one: its place in the ring says which */
    void *req;
} dma_piece_t;

typedef struct dma_lane {
    dma_piece_t *pieces;  /* a ring of `room` */
    uint32_t room;        /* kept from call to call */
    uint64_t first, next; /* under way */
    uint32_t number;      /* of the piece to begin next, of operation started[lane] */
    uint32_t op, filled;  /* SENT: all pieces of operations before `op`, and so many of it, have been copied away */
} dma_lane_t;

#define CLUSTER_PIECES 1024 /* under way in a lane, at most */
/* Bytes of a piece: so many chunks of pipelined algorithms, but no more than 256 KiB if a chunk is not, and than 1 MiB. */
#define CLUSTER_CHUNKS     8
#define CLUSTER_PIECE      (256u << 10)
#define CLUSTER_PIECE_MOST (1u << 20)

/* A call that runs. */
typedef struct dma_cluster_call {
    dma_cluster_plan_t *plan; /* NULL: none runs */
    bool kept;                /* the plan stays with the communicator */
    bool met;                 /* all its peers */
    bool copying;             /* the engine, in the local lane */
    char *base[3];            /* by dma_cluster_base_t */
    bool on_device[3];
    char *temp;                                    /* of base[DMA_CLUSTER_TEMP], what is to be freed */
    struct dma_relay *relay;                       /* NULL: all is host memory */
    uint32_t started[DMA_LANES], ended[DMA_LANES]; /* ended: without a gap */
    uint64_t moves;                                /* of pieces, from state to state */
    unsigned inside;                               /* turns in which it has waited for ranks of the node alone */
    uint32_t seq, note;                            /* of its messages */
    double since, pause; /* when it was first found waiting, or has last told so, 0: not yet; until it does again */
    int64_t *numbers;    /* counts and displacements of a node-local call: 4 per rank of the node */
    void *arrays;        /* and what its task needs */
    _Alignas(DMA_TASK_ALIGN) char task[DMA_TASK_BYTES]; /* the node-local call */
} dma_cluster_call_t;

typedef struct dma_cluster {
    dma_proc_t *proc;
    const dma_net_ops_t *wire;
    void *net;
    uint32_t first;           /* the lowest rank of the communicator on this node */
    struct dma_cluster *root; /* of a channel: its communicator's; else itself */
    dma_node_map_t node_map;
    dma_comm_t *local;     /* the ranks of the node; NULL: there is one only */
    dma_host_t local_host; /* its services: ours, with its ranks' numbers */
    void *handle;          /* and what we hand to them */
    const dma_host_t *host;
    /* agreed */
    dma_net_profile_t profile;
    int forced;
    uint64_t chunk, piece;
    size_t address_bytes; /* of the longest address */
    uint32_t id, owner;
    /* set-up */
    dma_bootstrap_t exchange;
    int phase;
    bool joined;      /* the network keeps messages for it */
    uint32_t verdict; /* ours */
    bool exchanging;
    pthread_mutex_t
        lock; /* guards what follows up to `alerted`, and `heard`, of a root; not held in the host's services */
    dma_cluster_peer_t **peers; /* chains by rank, a power of 2 of them */
    uint32_t chains, npeers;
    bool alerted;
    _Atomic int alarm;      /* the status that some rank has failed with, or 0; of a root */
    unsigned looked, heard; /* turns; chains of peers that were listened to, of a root */
    dma_cluster_memo_t memo[CLUSTER_MEMO];
    dma_cluster_kept_t kept[CLUSTER_KEPT];
    int newest; /* of these, the one used last */
    dma_cluster_call_t call;
    dma_lane_t lanes[2]; /* SENT, RECEIVED; of the call */
    dma_task_t *running;
    uint64_t filled, overlapped; /* pieces that have been copied away; of them while earlier ones travelled */
} dma_cluster_t;

/* setup.c */
dma_status_t dma_cluster_setup_begin(dma_comm_t *comm);
dma_status_t dma_cluster_setup_advance(dma_comm_t *comm);
void dma_cluster_drop_local(dma_cluster_t *c);

/* route.c */
/* Adds what the network knows to the reason that the communicator fails for. */
void dma_cluster_append_trouble(dma_comm_t *comm);
/* This process on the network; DMA_UNSUPPORTED: there is none. */
dma_status_t dma_proc_network(dma_proc_t *proc, void **net);

extern const dma_route_t dma_route_cluster;

/* What all ranks think of a call, or both ends of a message: the operation in the lowest byte, its sizes in the others. */
static inline uint32_t dma_cluster_note(dma_coll_t coll, uint64_t sizes)
{
    return 1 + (uint32_t)coll + ((uint32_t)(sizes * UINT64_C(0x9e3779b97f4a7c15) >> 40) << 8);
}

/* cluster_call.c */
dma_status_t dma_cluster_advance(dma_comm_t *comm, dma_task_t *task);
dma_wait_t dma_cluster_waits_for(const dma_comm_t *comm, const dma_task_t *task);
/* Ends the call that runs, whether or not it is over. */
void dma_cluster_end_call(dma_cluster_t *c);
/* Plans that are kept. */
void dma_cluster_free_plans(dma_cluster_t *c);

/* cluster_lane.c */
/* DMA_ERR_NOMEM, or ready for the call's plan. */
dma_status_t dma_lanes_begin(dma_cluster_t *c);
/* SENT or RECEIVED, as far as it goes now. */
dma_status_t dma_lane_advance(dma_cluster_t *c, dma_cluster_lane_t lane);
/* No message of the call is under way. */
static inline bool dma_lanes_idle(const dma_cluster_t *c)
{
    return c->lanes[DMA_LANE_SEND].first == c->lanes[DMA_LANE_SEND].next &&
           c->lanes[DMA_LANE_RECV].first == c->lanes[DMA_LANE_RECV].next;
}
/* The rank whose message has been waited for the longest, or -1. */
int dma_lanes_waits_for(const dma_cluster_t *c);
/* The call has failed: no message uses its memory any more. A peer that has not even moved its network on for a while is given
 * up for that, with all its communicators: the buffers are the user's again. */
void dma_lanes_stop(dma_cluster_t *c);
void dma_lanes_free(dma_cluster_t *c);

static inline char *dma_cluster_at(const dma_cluster_call_t *call, dma_cluster_addr_t place)
{
    return (char *)((uintptr_t)call->base[place.base] + (uintptr_t)place.at);
}

/* An operation's turn has come. */
static inline bool dma_cluster_may_start(const dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    return op->need[0] <= call->ended[0] && op->need[1] <= call->ended[1] && op->need[2] <= call->ended[2];
}

/* cluster_peer.c */
/* DMA_OK: *peer is known; DMA_AGAIN: the introduction is under way. */
dma_status_t dma_cluster_connect_peer(dma_cluster_t *c, int rank, void **peer);
/* Memory for the introductions of the set-up: without messages. */
dma_status_t dma_cluster_alloc_neighbors(dma_cluster_t *c);
/* Those of the next node and of the one before whom everybody meets. An error comes only when nobody waits for us any
 * more; *lost is a rank that it is about. */
dma_status_t dma_cluster_connect_neighbors(dma_cluster_t *c, int *lost);
/* Some peer's alarm, or that it thinks otherwise of the call that runs, or DMA_OK. */
dma_status_t dma_cluster_poll_notices(dma_cluster_t *c);
/* The call that runs waits: all peers are told which it is, from time to time. */
void dma_cluster_announce_call(dma_cluster_t *c);
void dma_cluster_send_alarm(dma_cluster_t *c, dma_status_t status);
void dma_cluster_close_peers(dma_cluster_t *c);

#endif
