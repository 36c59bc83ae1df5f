/*
 * The cluster route: communicators over several nodes.
 *
 * Such a communicator contains a second one, the node communicator: the ranks of its own node, with shared memory and
 * engines. A call is a cluster plan (plan/cluster/cluster.h) with three lanes: SEND and RECV exchange messages with
 * other nodes, LOCAL copies and calls collectives of the node communicator. One call of a communicator runs at a time,
 * because the node communicator matches the node-local collectives of all calls in order.
 *
 * Messages. A message of an operation is sent as one or several pieces of at most `piece` bytes. The number of pieces
 * depends on nothing else: not on the rank, the kind of memory or the algorithm. The pieces of a message have equal
 * tags and so match in order. The note of the tag contains the operation and a hash of sizes: of the message's block in
 * an all-to-all-v, whose other sizes the two ranks do not know; otherwise of all blocks.
 *
 * Device memory. A rank whose buffer is in device memory copies its pieces through the slots of a relay (relay.h).
 * Node-local collectives get the device memory itself; the node communicator finds out whether the GPUs of its ranks
 * can copy it. So the kind of memory may differ between ranks and between calls, and other nodes need not know it.
 *
 *     SEND   FILLING ---> FILLED ---> IN_FLIGHT ---> DONE      without a slot, a piece begins as FILLED
 *            engine       waits for   network
 *                         its turn
 *     RECV   IN_FLIGHT ---> RECEIVED ---> DRAINING ---> DONE   without a slot, a received piece is DONE
 *            network        waits for     engine
 *                           its turn
 *
 * The pieces of a lane begin in order and are posted to the network in order. The counter of a lane counts an operation
 * when its last piece is DONE.
 *
 * Peers. Two ranks connect when a call first needs a message between them. Where the addresses of all ranks are short, as over
 * TCP, all ranks exchange them in set-up, so that an introduction costs no connection of the host services. Otherwise two ranks
 * exchange their addresses by the host services when they connect: one message in each direction per pair of ranks and
 * communicator. Both ranks need each other in the same call, so neither has to ask. The channel of a persistent call uses the
 * peers of the communicator that it belongs to (`primary`).
 *
 * Set-up. After its first message no rank may fail alone, because others wait for its messages. So when the first
 * records have arrived, every rank allocates the memory for the rest. Before any other message all ranks exchange
 * whether they have it. If a rank has not, the communicator steps aside.
 *
 * Failure. A rank that fails poisons the node communicator and sends an alarm to all its peers. Every rank has a
 * receive for notices posted for each peer, which also ends when the peer fails. A rank that receives an alarm fails
 * and sends the alarm to its own peers. If there is no memory for the send request, the receive request of that peer is
 * cancelled first.
 *
 * An alarm must reach all ranks. So in set-up each rank connects to ranks of the next node: those whose index in their
 * node is its own or its own plus one, modulo the number of ranks of either node. Ranks with consecutive indices have
 * one of these in common. So all ranks are connected, directly or through others, before a call can fail. A rank in
 * between may have no part in the call, or may have completed it. So READY communicators without a call poll for
 * notices too, from the network's progress (dma_proc_poll_notices). Where the network does not connect these neighbors,
 * the communicator steps aside.
 *
 * Limit. A rank that has freed the communicator passes no alarm on. All ranks between two others may have freed it, as after
 * an all-to-all-v in which they have no part. If one of the two fails then before it has connected to the other one, for
 * example by an error in its arguments, no alarm arrives. The other one waits until the process of the failed rank ends,
 * or, if the addresses were to be exchanged first, until Open MPI ends the job.
 *
 * The set-up of a channel waits for other ranks too. A rank that has failed does not take part in it; a rank that fails
 * before it has a channel fails the communicator. So a channel polls the notices of its communicator, and checks the
 * node communicator of its communicator, from its first message on, and its alarm goes to the peers of that
 * communicator.
 *
 * A rank that has left in an orderly way, as at the end of its last session, has not failed, unless another rank still
 * waits for its data. Messages to a rank that has failed, or has left the communicator, are dropped: no sender waits
 * until they are received.
 *
 * Mismatch. Ranks that call with different sizes may have chosen different algorithms, whose messages never match. So a
 * rank that has waited for a second announces to all peers its current call and the call's note, and repeats that at
 * growing intervals. A peer in the same call with another note fails. No rank fails because time has passed.
 */
#ifndef DMA_CLUSTER_H
#define DMA_CLUSTER_H

#include "cluster/relay.h"
#include "core/comm.h"
#include "core/setup/bootstrap.h"
#include "dma/net.h"
#include "plan/cluster/cluster.h"

typedef struct dma_cluster dma_cluster_t;

/* ---- setup.c: the set-up ---- */

/* Bytes of a piece: CLUSTER_CHUNKS chunks of pipelined algorithms, but at least one chunk, and at most CLUSTER_PIECE
 * unless a chunk is larger. Never more than CLUSTER_PIECE_MAX. */
#define CLUSTER_CHUNKS    8
#define CLUSTER_PIECE     (256u << 10)
#define CLUSTER_PIECE_MAX (1u << 20)

/* The most memory of a communicator for the addresses of all ranks. */
#define CLUSTER_TOLD_BYTES (256u << 10)

/* What all ranks exchange first. */
typedef struct dma_cluster_record {
    uint32_t protocol, first, network; /* first: the lowest rank on the same node */
    uint32_t owner, id;
    int32_t forced;
    uint64_t chunk, first_seq;
    dma_net_profile_t profile;
    dma_net_place_t place;
    uint64_t spare[3]; /* another version may need them: records have a fixed size */
} dma_cluster_record_t;

dma_status_t dma_cluster_setup_begin(dma_comm_t *comm);
dma_status_t dma_cluster_setup_advance(dma_comm_t *comm);
void dma_cluster_setup_cancel(dma_comm_t *comm);
dma_wait_t dma_cluster_setup_waits_for(const dma_comm_t *comm);
const char *dma_cluster_setup_phase(const dma_comm_t *comm);
/* The ranks of the node that a collective of the node communicator, or its set-up, waits for. Each may be waiting for a
 * message before it enters. */
dma_wait_t dma_cluster_node_waits_for(const dma_cluster_t *c);
void dma_cluster_destroy_node_comm(dma_cluster_t *c);

/* ---- hosts.c: addresses, and limits of hosts ---- */

/* Excludes the addresses of this host that another host has too. */
dma_status_t dma_cluster_exclude_shared(dma_comm_t *comm);
/* Lets the hosts of the communicator connect. */
dma_status_t dma_cluster_admit_hosts(dma_comm_t *comm);
/* Whether this process can connect to all ranks of other nodes. */
bool dma_cluster_has_descriptors(const dma_comm_t *comm);
void dma_cluster_report_descriptors(dma_comm_t *comm);

/* ---- peer.c: ranks of other nodes, and notices to and from them ---- */

/* A message between peers outside of calls: an alarm, or the announcement of the current call. */
typedef struct dma_cluster_notice {
    int32_t status;                  /* alarm: what the rank has failed with; DMA_OK: an announcement */
    uint32_t comm, owner, seq, note; /* announcement: the communicator, the call and its note */
} dma_cluster_notice_t;

/* A buffer of a request is valid until the request has completed, also when the call that posted it has ended. */
typedef struct dma_cluster_peer {
    struct dma_cluster_peer *next; /* in its bucket */
    int rank;
    void *net_peer; /* NULL: not connected yet */

    /* Exchange of addresses, unless all are known since set-up. A message is the size of the address (uint32_t) and the
     * address. */
    bool exchange_started;
    dma_status_t status; /* DMA_AGAIN: a thread is posting the messages; an error: the peer cannot be connected */
    char *addresses;     /* the peer's message, then ours; NULL once connected, and without an exchange */
    void *recv_req, *send_req;

    /* Notices. */
    void *notice_req; /* the posted receive */
    dma_cluster_notice_t received;
    dma_cluster_notice_t last; /* the last one that has been received */
    void *alarm_req, *announce_req;
    dma_cluster_notice_t alarm, announcement; /* what they send */
} dma_cluster_peer_t;

#define CLUSTER_BUCKETS 4 /* of the first table of peers; a power of 2 */

/* The room for one address and its size, in messages and in `told`. */
size_t dma_cluster_address_room(const dma_cluster_t *primary);
/* Connects to a rank. DMA_OK: *peer is set. DMA_AGAIN: the exchange of addresses has not completed. */
dma_status_t dma_cluster_connect_peer(dma_cluster_t *c, int rank, void **peer);
/* Allocates the peers that set-up connects to; sends nothing. */
dma_status_t dma_cluster_alloc_neighbors(dma_cluster_t *c);
/* Connects to them. DMA_AGAIN while any exchange is in progress: an error is returned only when no rank waits for this
 * one any more. *failed_rank is then a rank that could not be connected. */
dma_status_t dma_cluster_connect_neighbors(dma_cluster_t *c, int *failed_rank);
/* DMA_OK, the status of an alarm, DMA_ERR_PEER if a peer has failed, or DMA_ERR_MISMATCH or DMA_ERR_TRUNCATE if a
 * peer's announcement of the current call differs from this rank's. Polls a part of the peers. */
dma_status_t dma_cluster_poll_notices(dma_cluster_t *c);
/* Announces the current call to all peers when it has waited for long enough. */
void dma_cluster_announce_call(dma_cluster_t *c);
void dma_cluster_send_alarm(dma_cluster_t *c, dma_status_t status);
void dma_cluster_close_peers(dma_cluster_t *c);
/* Appends the last error of the network to comm->reason. */
void dma_cluster_append_net_error(dma_comm_t *comm);

/* ---- call.c: the current call and its plan ---- */

/* A kept plan of calls with equal blocks. */
typedef struct dma_cluster_memo {
    uint64_t key; /* operation, bytes of a block and flags */
    dma_cluster_plan_t *plan;
} dma_cluster_memo_t;

#define CLUSTER_MEMO      8 /* entries of the table of such plans */
#define CLUSTER_MEMO_BITS 3
_Static_assert(CLUSTER_MEMO == 1 << CLUSTER_MEMO_BITS, "the hash selects an entry");

/*
 * A kept plan of calls whose blocks have different sizes. Two are kept, because a transform and its inverse alternate.
 * A plan depends only on its request and on constants of the communicator, so a rank may use a kept plan while others
 * build theirs. A running plan reads the counts and displacements of its request. A kept plan has copies of them; it
 * has no addresses of the call.
 */
typedef struct dma_cluster_kept {
    dma_cluster_plan_t *plan; /* NULL: none */
    uint64_t *numbers;        /* by rank: counts and displacements of the send side, then of the receive side */
} dma_cluster_kept_t;

#define CLUSTER_KEPT 2
/* The maximum size of a kept plan: 16 thousand messages in each direction, as for one message to every rank on 2000
 * nodes of 8 ranks, or for blocks of 1 MiB on 64 nodes. Building a longer plan adds a small part to the time of its
 * messages. That does not justify more memory on every rank, twice per communicator and once per persistent call. */
#define CLUSTER_KEPT_BYTES (5u << 20)

typedef struct dma_cluster_call {
    /* The plan. */
    dma_cluster_plan_t *plan; /* NULL: there is no current call */
    bool kept;                /* the communicator owns the plan */

    /* The memory, by dma_cluster_base_t. */
    char *base[3];
    bool on_device[3];
    char *temp;         /* base[DMA_CLUSTER_TEMP] if the call has to free it */
    dma_relay_t *relay; /* NULL: no buffer is in device memory; else the next */
    dma_relay_t own_relay;

    /* Progress. */
    bool connected;                                /* to all peers of the plan */
    uint32_t started[DMA_LANES], ended[DMA_LANES]; /* operations; ended: all up to this one */
    uint64_t state_changes;                        /* of pieces, and operations that have ended in LOCAL */
    bool copying;                                  /* LOCAL: the relay's engine copies */
    uint64_t local_began;                          /* when the operation of LOCAL began, for the trace */
    uint64_t node_position; /* dma_comm_position of the node communicator, when it was last advanced */
    unsigned local_turns;   /* turns in which no message was in flight, so that the call waited for its node only */

    /* Messages. */
    uint32_t seq, note;
    double waiting_since; /* the first turn of waiting, or the last announcement; 0: not set */
    double announce_interval;

    /* The current collective of the node communicator. */
    int64_t *node_counts; /* counts and displacements: 4 numbers per rank of the node */
    void *node_arrays;    /* dma_arrays_t of its task */
    _Alignas(DMA_TASK_ALIGN) char node_task[DMA_TASK_BYTES];
} dma_cluster_call_t;

/* The note of a tag (dma/net.h): the operation in the lowest byte, a hash of `sizes` in the others. */
static inline uint32_t dma_cluster_note(dma_coll_t coll, uint64_t sizes)
{
    return 1 + (uint32_t)coll + ((uint32_t)(sizes * UINT64_C(0x9e3779b97f4a7c15) >> 40) << 8);
}

static inline char *dma_cluster_at(const dma_cluster_call_t *call, dma_cluster_addr_t place)
{
    return (char *)((uintptr_t)call->base[place.base] + (uintptr_t)place.at);
}

/* The counters of all lanes have reached what the operation needs. */
static inline bool dma_cluster_may_start(const dma_cluster_call_t *call, const dma_cluster_op_t *op)
{
    return op->need[0] <= call->ended[0] && op->need[1] <= call->ended[1] && op->need[2] <= call->ended[2];
}

dma_status_t dma_cluster_advance(dma_comm_t *comm, dma_task_t *task);
/* Where a task is. */
const char *dma_cluster_call_phase(const dma_comm_t *comm, const dma_task_t *task);
uint64_t dma_cluster_position(const dma_comm_t *comm, const dma_task_t *task);
/* Ends the current call, complete or not. */
void dma_cluster_end_call(dma_cluster_t *c);

/* ---- plans.c ---- */

/* Sets the plan of the current call, whose buffers are located. */
dma_status_t dma_cluster_find_plan(dma_comm_t *comm, const dma_task_t *task);
void dma_cluster_drop_plan(dma_cluster_call_t *call);
/* Frees the kept plans. */
void dma_cluster_free_plans(dma_cluster_t *c);

/* ---- lane.c: the lanes SEND and RECV of the current call ---- */

typedef enum dma_piece_state {
    PIECE_FILLING,
    PIECE_FILLED,
    PIECE_IN_FLIGHT,
    PIECE_RECEIVED,
    PIECE_DRAINING,
    PIECE_DONE
} dma_piece_state_t;

typedef struct dma_piece {
    uint32_t op, number; /* operation of the lane; piece of the operation */
    dma_piece_state_t state;
    bool slot; /* goes through the slot that belongs to its place in the ring */
    void *req;
    uint64_t posted; /* when, for the trace */
} dma_piece_t;

#define CLUSTER_PIECES 1024 /* the maximum number of pieces in progress in a lane */

typedef struct dma_lane {
    dma_piece_t *pieces;  /* a ring */
    uint32_t room;        /* its size; the memory is kept from call to call */
    uint64_t first, next; /* pieces in progress: first .. next - 1 */
    uint32_t number;      /* the piece to begin next, of operation started[lane] */
    uint32_t op,
        filled; /* SEND: all pieces of the operations before `op`, and `filled` pieces of it, have been copied away */
} dma_lane_t;

/* Prepares the lanes for the plan of the call. */
dma_status_t dma_lanes_begin(dma_cluster_t *c);
/* Advances SEND or RECV as far as possible now. */
dma_status_t dma_lane_advance(dma_cluster_t *c, dma_cluster_lane_t lane);
/* The ranks whose messages are waited for, the longest first. */
dma_wait_t dma_lanes_waits_for(const dma_cluster_t *c);
/* The call has failed: cancels its messages and returns when none of them uses the user's memory any more. A peer that
 * does not make progress for CANCEL_SECONDS is declared failed, for all communicators. */
void dma_lanes_stop(dma_cluster_t *c);
void dma_lanes_free(dma_cluster_t *c);

/* ---- route.c: the communicator, and its failure ---- */

struct dma_cluster {
    dma_proc_t *proc;
    const dma_host_t *host;
    void *handle; /* of the communicator, for host services and addresses */
    const dma_net_ops_t *net_ops;
    void *net;
    const dma_trace_comm_t *trace; /* of the communicator */
    uint32_t first;                /* the lowest rank of the communicator on this node */
    dma_cluster_t *primary;        /* of a channel: the communicator that it belongs to; otherwise this one */

    /* The node communicator. */
    dma_node_map_t node_map;
    dma_comm_t *node_comm; /* NULL: this rank is alone on its node */
    dma_host_t node_host;  /* its host services: ours, with other rank numbers */

    /* Equal on all ranks. `id` and `owner` identify the communicator in tags. */
    dma_net_profile_t profile;
    uint64_t variant_seq; /* the call that was begun last, and its variant */
    uint32_t variant;
    int forced; /* variant, or -1 */
    uint64_t chunk, piece;
    size_t address_bytes; /* of the longest address */
    bool tells;           /* addresses are exchanged in set-up, not when two ranks connect */
    char *told;           /* if `tells`, by rank: the size of its address (uint32_t) and the address */
    uint32_t id, owner;

    /* Set-up. */
    dma_bootstrap_t exchange;
    bool exchanging; /* `exchange` has to be ended */
    int phase;
    uint32_t verdict; /* this rank's */
    uint32_t descriptors_left, descriptors_needed;
    bool registered; /* the network keeps unexpected messages of the communicator */

    /* Peers: a hash table by rank. Only a primary uses these. `lock` guards them, except `alarm`; it is not held in
     * calls of the host services. */
    pthread_mutex_t lock;
    dma_cluster_peer_t **buckets;
    uint32_t nbuckets; /* a power of 2 */
    uint32_t npeers;
    unsigned next_bucket; /* to poll next */
    bool alarm_sent;
    _Atomic int alarm; /* the status that a rank has failed with, or 0 */

    /* Calls. */
    dma_cluster_memo_t memo[CLUSTER_MEMO];
    dma_cluster_kept_t kept[CLUSTER_KEPT];
    int newest; /* the one of `kept` that was used last */
    dma_cluster_call_t call;
    dma_lane_t lanes[2];      /* DMA_LANE_SEND, DMA_LANE_RECV */
    dma_task_t *running_task; /* the task of the current call */
    unsigned turns;           /* dma_comm_t.turns of the communicator */
    unsigned watch_turns;     /* turns without progress, */
    unsigned polled_turns;    /* and how many there were at the last poll of notices */
    uint64_t filled,
        overlapped; /* pieces copied into slots; those among them that were copied while others were in flight */
};

extern const dma_route_t dma_route_cluster;

/* The record of a rank, until the first exchange of records has been followed by another. */
static inline const dma_cluster_record_t *dma_cluster_record(const dma_comm_t *comm, int rank)
{
    return dma_bootstrap_record(&comm->cluster->exchange, rank);
}

#endif
