/*
 * Cluster plans: the plans of calls whose ranks are on several nodes.
 *
 * A cluster plan is what one rank does in one call. It has three lanes that run independently, each in order:
 *
 *     SEND      messages to ranks of other nodes
 *     RECV      messages from ranks of other nodes
 *     LOCAL     copies, and collectives among the ranks of the node
 *
 * Each lane counts its completed operations, from the first on and without a gap. An operation starts when all
 * operations before it in its lane have started, when fewer than `window` operations of the lane are in progress, and
 * when the three counters have reached the numbers in its `need`. There is no other order. Operations in progress at
 * the same time access the same bytes only to read them.
 *
 * A message is identified by its two ranks and a step. Both ranks number the messages of a pair in the same order. A
 * send or receive starts whether or not the other rank has reached its own, and may stay in progress until then. All
 * messages of a job can be put into one order that the SEND and RECV lanes of all ranks follow. So a plan completes
 * however few messages are in progress at once, and however few receives are posted.
 *
 * A rank may run its plan relayed (cluster/relay.h): a message is copied away before it is sent, and a received
 * message is stored elsewhere before it is copied to its destination. In place, a relayed plan needs no scratch. A
 * received message must then not be copied to its destination before the send that takes the old content of these
 * bytes, the receive's `after`, has copied it away. No other rank sees a difference.
 *
 * Node-local collectives are calls of their own on the communicator of the node, run by any engine of the node. They
 * match in order, so all ranks of a node have the same ones in their LOCAL lanes:
 *
 *     GATHER    each rank of the node contributes one part and gets the parts of all: an all-gather-v
 *     EXCHANGE  each rank of the node gives one part to each rank of the node: an all-to-all-v
 *
 * An operand is a base and an offset in bytes. A plan contains no addresses. It contains sizes, so it fits calls of
 * equal sizes only. Everything that decides which ranks exchange messages is equal on all ranks.
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
    DMA_CLUSTER_OUT,  /* the send buffer; in place: the own block (all-gathers) or the receive buffer (all-to-alls) */
    DMA_CLUSTER_IN,   /* the receive buffer */
    DMA_CLUSTER_TEMP, /* scratch of the call */
} dma_cluster_base_t;

typedef struct dma_cluster_addr {
    uint8_t base; /* dma_cluster_base_t */
    int64_t at;   /* offset in bytes */
} dma_cluster_addr_t;

typedef struct dma_cluster_op {
    uint8_t code;            /* dma_cluster_code_t */
    bool blocks;             /* GATHER: the parts are blocks, given by `range`; otherwise they are in plan->parts */
    dma_cluster_addr_t from; /* SEND, COPY; GATHER: this rank's part; EXCHANGE: the base of the parts to give */
    dma_cluster_addr_t to;   /* RECV, COPY; GATHER, EXCHANGE: the base of the parts to get */
    uint64_t bytes;          /* SEND, RECV: of the message; COPY: of a row */
    uint32_t rows;           /* COPY */
    int64_t from_pitch, to_pitch;
    int32_t peer;  /* SEND, RECV */
    uint32_t step; /* SEND, RECV */
    /* RECV, relayed and in place: the send, counted from 1, that takes the bytes that this receive overwrites */
    uint32_t after;
    union {
        uint32_t first; /* GATHER, EXCHANGE: index of the first part, of one per rank of the node */
        struct {        /* GATHER: part i is the block of rank number round * (ranks of this node) + i of `node`, */
            uint32_t node, round;
            uint64_t skip, max_bytes; /* of it the bytes from `skip` on, at most max_bytes */
        } range;
    };
    uint32_t need[DMA_LANES];
} dma_cluster_op_t;

typedef struct dma_cluster_part {
    int64_t from, to; /* offsets from the bases of the operation */
    uint64_t give, get;
} dma_cluster_part_t;

/* The input of a builder. */
typedef struct dma_cluster_req {
    dma_coll_t coll;
    bool in_place; /* all-gathers: may differ between ranks */
    bool relayed;  /* may differ between ranks: this rank runs its plan relayed */
    /* may differ between ranks: one side is host, the other device memory; node-local collectives do not mix them */
    bool mixed_memory;
    const dma_node_map_t *node_map;
    dma_blocks_t send, recv; /* sizes and displacements; the addresses are not used */
    uint64_t chunk;          /* bytes of a message of pipelined algorithms: see dma_cluster_chunk */
} dma_cluster_req_t;

typedef struct dma_cluster_plan {
    dma_cluster_req_t req;
    int variant; /* index into the table of algorithms */
    dma_cluster_op_t *ops[DMA_LANES];
    uint32_t nops[DMA_LANES], capacity[DMA_LANES];
    uint32_t window[DMA_LANES];
    dma_cluster_part_t *parts;
    uint32_t nparts;
    uint64_t temp_bytes;
    bool failed;            /* out of memory in a builder */
    dma_cluster_op_t spare; /* out of memory: operations are written here and never read */
} dma_cluster_plan_t;

/* One row of the table of algorithms. To add one: its builder, its cost function (cost.c) and its row (cluster.c). */
typedef struct dma_cluster_variant {
    const char *name;
    const char *help;
    uint32_t serves; /* operations with these traits */
    /* Why it cannot run the request; NULL: it can run all. Uses facts that are equal on all ranks. */
    const char *(*unfit)(const dma_cluster_req_t *req);
    void (*build)(dma_cluster_plan_t *plan);
    /* Predicted picoseconds until the last rank has completed. `bytes`: of the largest block. */
    uint64_t (*cost)(const dma_net_profile_t *profile, const dma_node_map_t *node_map, dma_coll_t coll, uint64_t bytes);
} dma_cluster_variant_t;

/* Terminated by NULL. */
extern const dma_cluster_variant_t *const dma_cluster_variants[];
int dma_cluster_variant_find(const char *name);

/* The variant with the lowest predicted cost for blocks of at most `bytes`, or `forced` if that is >= 0 and fits; else *reason
 * says why not. -1: none fits. */
int dma_cluster_choose(const dma_net_profile_t *profile, const dma_cluster_req_t *req, uint64_t bytes, int forced,
                       const char **reason);

/* The maximum number of messages per block, and of all blocks of a rank together. So a plan does not grow with the
 * size of the call. */
#define DMA_CLUSTER_PIECES   256
#define DMA_CLUSTER_MESSAGES (1u << 18)

/* The size of the messages of a block of `bytes` bytes. Both ends of a message compute it. */
uint64_t dma_cluster_chunk(const dma_cluster_req_t *req, uint64_t bytes);

/* The number of messages that a rank may send ahead of those it has received. Enough for an adapter to have work
 * while ranks wait for a core, and too few to fill the buffers of a network. */
#define DMA_CLUSTER_AHEAD 16

/* Builds a plan. On success the caller owns it. */
dma_status_t dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **plan);
void dma_cluster_free(dma_cluster_plan_t *plan);
/* The memory of a plan, in bytes. */
size_t dma_cluster_bytes(const dma_cluster_plan_t *plan);

/* Part i of a GATHER or EXCHANGE. */
dma_cluster_part_t dma_cluster_part(const dma_cluster_plan_t *plan, const dma_cluster_op_t *op, int i);

/* For builders: append an operation to its lane. Unless the builder sets `need`, it waits for its lane only. Never
 * NULL. */
dma_cluster_op_t *dma_cluster_send(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t from,
                                   uint64_t bytes);
dma_cluster_op_t *dma_cluster_recv(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t to,
                                   uint64_t bytes);
/* Appends a piece of a copy. Pieces that are adjacent, or at equal distances, are merged into one operation. `fresh`
 * begins a new operation, with a `need` of its own. */
dma_cluster_op_t *dma_cluster_copy(dma_cluster_plan_t *plan, bool fresh, dma_cluster_addr_t to, dma_cluster_addr_t from,
                                   uint64_t bytes);
dma_cluster_op_t *dma_cluster_local(dma_cluster_plan_t *plan, dma_cluster_code_t code);
/* The parts of an operation, one per rank of the node, all empty. At most four operations of a plan have parts. */
dma_cluster_part_t *dma_cluster_parts(dma_cluster_plan_t *plan, dma_cluster_op_t *op);

static inline dma_cluster_addr_t dma_cluster_addr(dma_cluster_base_t base, int64_t at)
{
    return (dma_cluster_addr_t){.base = (uint8_t)base, .at = at};
}

/* Block b of the receive buffer, and of the send buffer. */
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
