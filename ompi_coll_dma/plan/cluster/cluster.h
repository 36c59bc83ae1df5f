/*
 * Plans of calls whose ranks are on several nodes.
 *
 * A cluster plan is what one rank does for one call, in three lanes that run side by side, each in order:
 *
 *     SENT      messages to ranks of other nodes
 *     RECEIVED  messages from them
 *     LOCAL     copies, and collectives of the node's ranks among themselves
 *
 * Every lane counts the operations that it has completed from its first on without a gap, and an operation starts when it
 * is its turn, when its lane has room (`window` operations under way) and when the three counters have reached what it
 * needs. That is all the order there is: operations under way touch the same bytes only to read them.
 *
 * A message is named by the two ranks and a step; both sides number the messages of a pair in the same order. It starts
 * no matter whether the other side has come to it, and may stay under way until then. All messages of a job can be put in
 * one order that the SENT and RECEIVED lanes of all ranks follow: so a plan ends however few messages are under way at
 * once, and however few receives are posted.
 *
 * A rank may run its plan relayed (cluster/relay.h): a message is copied away before it is sent, and put aside when it comes
 * before it is copied to its place. In place such a plan needs no scratch, only that no message is copied to a place before
 * the send that takes what is there, the receive's `after`, has copied it away, byte for byte. Nobody else sees it.
 *
 * Node-local collectives are calls of their own on the node's communicator, by whatever engine the node has. They match by
 * order, so all ranks of a node have the same ones in their LOCAL lanes:
 *
 *     GATHER    every rank i of the node gives one part, and gets all: an all-gather-v
 *     EXCHANGE  every rank gives a part to every rank i of the node: an all-to-all-v
 *
 * Operands name a base and bytes from there: a plan has no addresses, but it has sizes, so it belongs to calls of equal
 * sizes. What it is made from is equal on all ranks as far as it steers who talks to whom.
 */
#ifndef DMA_PLAN_CLUSTER_H
#define DMA_PLAN_CLUSTER_H

#include "dma/engine.h"
#include "plan/cluster/net_profile.h"
#include "plan/cluster/node_map.h"

typedef enum dma_cluster_lane { DMA_LANE_SEND, DMA_LANE_RECV, DMA_LANE_LOCAL, DMA_LANES } dma_cluster_lane_t;

typedef enum dma_cluster_code {
    DMA_CLUSTER_SEND,
    DMA_CLUSTER_RECV,
    DMA_CLUSTER_COPY,
    DMA_CLUSTER_GATHER,
    DMA_CLUSTER_EXCHANGE,
} dma_cluster_code_t;

typedef enum dma_cluster_base {
    DMA_CLUSTER_OUT,  /* the send buffer; in place: of an all-gather the own block, else the receive buffer */
    DMA_CLUSTER_IN,   /* the receive buffer */
    DMA_CLUSTER_TEMP, /* scratch of the call */
} dma_cluster_base_t;

typedef struct dma_cluster_addr {
    uint8_t base; /* dma_cluster_base_t */
    int64_t at;   /* bytes from it */
} dma_cluster_addr_t;

typedef struct dma_cluster_op {
    uint8_t code;            /* dma_cluster_code_t */
    bool blocks;             /* GATHER: the parts are blocks, as said below; else in plan->parts */
    dma_cluster_addr_t from; /* SEND, COPY; GATHER: what this rank gives; EXCHANGE: the base of parts to give */
    dma_cluster_addr_t to;   /* RECV, COPY; GATHER, EXCHANGE: the base of parts to get */
    uint64_t bytes;          /* SEND, RECV; COPY: of a row */
    uint32_t rows;           /* COPY */
    int64_t from_pitch, to_pitch;
    int32_t peer;   /* SEND, RECV */
    uint32_t step;  /* SEND, RECV */
    uint32_t after; /* RECV: of a relayed call in place: it overwrites what this send, counted from 1, takes with it */
    union {
        uint32_t first; /* GATHER, EXCHANGE: of the parts, one per rank of the node */
        struct {        /* GATHER: part i is the block of rank number round * (ranks of this node) + i of a node, */
            uint32_t node, round;
            uint64_t skip, max_bytes; /* and of that block at most so many bytes, from `skip` on */
        } range;
    };
    uint32_t need[DMA_LANES];
} dma_cluster_op_t;

typedef struct dma_cluster_part {
    int64_t from, to; /* bytes from the op's bases */
    uint64_t give, get;
} dma_cluster_part_t;

/* What a builder may look at. */
typedef struct dma_cluster_req {
    dma_coll_t coll;
    bool in_place; /* all-gathers: of this rank alone */
    bool
        relayed; /* of this rank alone: what messages bring is put aside first, and what they take is copied away first */
    bool
        mixed_memory; /* of this rank alone: its sides are different kinds of memory, which the ranks of a node do not exchange */
    const dma_node_map_t *node_map;
    dma_blocks_t send, recv; /* sizes and displacements; addresses are not looked at */
    uint64_t chunk;          /* bytes of a message of pipelined algorithms: see dma_cluster_chunk */
} dma_cluster_req_t;

typedef struct dma_cluster_plan {
    dma_cluster_req_t req;
    dma_cluster_op_t *ops[DMA_LANES];
    uint32_t nops[DMA_LANES], capacity[DMA_LANES];
    uint32_t window[DMA_LANES];
    dma_cluster_part_t *parts;
    uint32_t nparts;
    uint64_t temp_bytes;
    bool failed;            /* out of memory while it was built: */
    dma_cluster_op_t spare; /* what has no room is written here and never read */
} dma_cluster_plan_t;

/* One row of the table of algorithms. */
typedef struct dma_cluster_variant {
    const char *name;
    const char *help;
    uint32_t colls;
    const char *(*unfit)(const dma_cluster_req_t *req); /* NULL: it fits. From facts equal on all ranks */
    void (*build)(dma_cluster_plan_t *plan);
    /* Predicted picoseconds until the last rank is done. `bytes`: of the largest block. */
    uint64_t (*cost)(const dma_net_profile_t *profile, const dma_node_map_t *node_map, dma_coll_t coll, uint64_t bytes);
} dma_cluster_variant_t;

/* Ended by NULL. */
extern const dma_cluster_variant_t *const dma_cluster_variants[];
int dma_cluster_variant_find(const char *name);

/* The cheapest that fits for blocks of at most `bytes`, or `forced` when it is >= 0 and fits; -1: none does. */
int dma_cluster_choose(const dma_net_profile_t *profile, const dma_cluster_req_t *req, uint64_t bytes, int forced);

/* Messages of a block, at most; fewer on very many ranks, by DMA_CLUSTER_MESSAGES over all blocks. So a plan does not grow
 * with the size of a call. */
#define DMA_CLUSTER_PIECES   256
#define DMA_CLUSTER_MESSAGES (1u << 18)

/* The largest message of a block, from what both its ends know. */
uint64_t dma_cluster_chunk(const dma_cluster_req_t *req, uint64_t bytes);

/* Messages that a rank may send before what it has received. Enough for an adapter to have work while ranks wait for a
 * processor, too few to fill the buffers of a network. */
#define DMA_CLUSTER_AHEAD 16

/* On success the caller owns the plan. */
dma_status_t dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **plan);
void dma_cluster_free(dma_cluster_plan_t *plan);
/* Memory that it takes. */
size_t dma_cluster_bytes(const dma_cluster_plan_t *plan);

/* Part i of a GATHER or EXCHANGE. */
dma_cluster_part_t dma_cluster_part(const dma_cluster_plan_t *plan, const dma_cluster_op_t *op, int i);

/* For builders: the next operation of a lane, which needs nothing but its turn. Never NULL. */
dma_cluster_op_t *dma_cluster_send(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t from,
                                   uint64_t bytes);
dma_cluster_op_t *dma_cluster_recv(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t to,
                                   uint64_t bytes);
/* A piece of a copy. Pieces that follow each other, or come at equal distances, become one operation; `fresh` begins
 * another, with needs of its own. */
dma_cluster_op_t *dma_cluster_copy(dma_cluster_plan_t *plan, bool fresh, dma_cluster_addr_t to, dma_cluster_addr_t from,
                                   uint64_t bytes);
dma_cluster_op_t *dma_cluster_local(dma_cluster_plan_t *plan, dma_cluster_code_t code);
/* The parts of an operation, one per rank of the node, all nothing. At most four operations of a plan have some. */
dma_cluster_part_t *dma_cluster_parts(dma_cluster_plan_t *plan, dma_cluster_op_t *op);

static inline dma_cluster_addr_t dma_cluster_addr(dma_cluster_base_t base, int64_t at)
{
    return (dma_cluster_addr_t){.base = (uint8_t)base, .at = at};
}

/* Where block b is. */
static inline dma_cluster_addr_t dma_cluster_recv_block(const dma_cluster_plan_t *plan, int b)
{
    const dma_blocks_t *r = &plan->req.recv;

    return dma_cluster_addr(DMA_CLUSTER_IN, r->displs ? r->displs[b] : (int64_t)((uint64_t)b * r->bytes));
}

static inline dma_cluster_addr_t dma_cluster_send_block(const dma_cluster_plan_t *plan, int b)
{
    const dma_blocks_t *s = &plan->req.send;

    return dma_cluster_addr(DMA_CLUSTER_OUT, s->displs ? s->displs[b] : (int64_t)((uint64_t)b * s->bytes));
}

#endif
