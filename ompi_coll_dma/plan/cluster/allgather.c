/*
 * All-gathers between nodes.
 *
 *   cluster_ring    Blocks go around the nodes. In every node, one rank carries a block: it receives the block and sends
 *                   it on. This is the rank with the same index as the block's rank, or, if the node has fewer ranks,
 *                   with this index modulo their number. So all adapters work, and each node receives from one other
 *                   node at a time. Received chunks are spread inside the node while the next ones are on their way.
 *                   Small chunks are spread several at a time, because a collective costs as much as tens of kilobytes,
 *                   and most on GPUs.
 *   cluster_direct  The same without going around: every rank sends its block to its carrier in every node.
 *   cluster_rails   Small blocks: Bruck's algorithm among the ranks with equal index, with the blocks in scratch, then one
 *                   gather inside the node. All nodes must have the same number of ranks.
 *   cluster_leader  The same with one rank per node for all its blocks: fewer messages, one adapter.
 *
 * The scratch of the last two has the nodes in rotated order, our own first:
 *
 *   rails    | own | node+1's | node+2's | ...    followed by the same amount from every rank of the node, by index
 *   leader   | all of own node | all of node+1 | ...
 */
#include "plan/cluster/cluster.h"
#include "plan/cluster/cost.h"

/* One gather inside the node spreads chunks of together so many bytes, and at most so many chunks: beyond that its
 * fixed cost hardly matters, and the next gather would start later. */
#define SPREAD_BYTES    (UINT64_C(128) << 10)
#define SPREAD_MESSAGES 8

/* ---- ring and direct ---- */

typedef struct pipeline {
    dma_cluster_plan_t *plan;
    const dma_node_map_t *l;
    uint64_t chunk;
    uint32_t chunks; /* of the largest block */
    int size;        /* ranks of this node */
    bool ring;
} pipeline_t;

static uint64_t block_bytes(const pipeline_t *w, int node, int j)
{
    return dma_blocks_bytes(&w->plan->req.recv, (uint64_t)dma_node_map_rank(w->l, node, j));
}

static uint32_t chunks_of(const pipeline_t *w, uint64_t bytes)
{
    return (uint32_t)(bytes / w->chunk + (bytes % w->chunk != 0)); /* cannot wrap for any chunk size */
}

/* The step of chunk c of block j of a node, `distance` nodes from its home. It is the same for sender and receiver. */
static uint32_t step_of(const pipeline_t *w, int distance, int j, uint32_t c)
{
    return ((uint32_t)distance * (uint32_t)w->l->max_size + (uint32_t)j) * w->chunks + c;
}

static uint64_t chunk_bytes(const pipeline_t *w, uint64_t bytes, uint32_t c)
{
    uint64_t left = bytes - c * w->chunk;

    return left < w->chunk ? left : w->chunk;
}

/* Receives that must have completed before we send chunk c of our own block, so that we are at most DMA_CLUSTER_AHEAD
 * messages ahead. `had`: receives of earlier steps; `due`: receives of this step. */
static uint32_t receives_before(uint32_t had, uint32_t c, uint32_t due)
{
    uint32_t want = had + c + 1 > DMA_CLUSTER_AHEAD ? had + c + 1 - DMA_CLUSTER_AHEAD : 0;

    return want < had + due ? want : had + due;
}

/* Sends block j of node `home`, which has come `distance` - 1 nodes from there, to node `to`. `had`: receives before
 * those of this block, or, for our own block, before those of this step, which has `due` receives. */
static void send_block(pipeline_t *w, int home, int j, int distance, int to, uint32_t had, uint32_t due)
{
    int size = dma_node_map_size(w->l, to), peer = dma_node_map_rank(w->l, to, j % size);
    int rank = dma_node_map_rank(w->l, home, j);
    uint64_t bytes = block_bytes(w, home, j);

    for (uint32_t c = 0; c < chunks_of(w, bytes); c++) {
        bool own = rank == w->l->rank;
        dma_cluster_addr_t from = own ? dma_cluster_addr(DMA_CLUSTER_OUT, 0) : dma_cluster_recv_block(w->plan, rank);
        dma_cluster_op_t *op;

        from.at += (int64_t)(c * w->chunk);
        op = dma_cluster_send(w->plan, peer, step_of(w, distance, j, c), from, chunk_bytes(w, bytes, c));
        op->need[DMA_LANE_RECV] = own ? receives_before(had, c, due) : had + c + 1;
    }
}

static void receive_block(pipeline_t *w, int home, int j, int distance, int from)
{
    int size = dma_node_map_size(w->l, from);
    int peer = dma_node_map_rank(w->l, from, w->ring ? j % size : j), rank = dma_node_map_rank(w->l, home, j);
    uint64_t bytes = block_bytes(w, home, j);

    for (uint32_t c = 0; c < chunks_of(w, bytes); c++) {
        dma_cluster_addr_t to = dma_cluster_recv_block(w->plan, rank);

        to.at += (int64_t)(c * w->chunk);
        dma_cluster_recv(w->plan, peer, step_of(w, distance, j, c), to, chunk_bytes(w, bytes, c));
    }
}

/* Whether the gather inside our own node also puts our own block into the receive buffer. */
static bool own_by_gather(const pipeline_t *w)
{
    return !w->plan->req.in_place && !w->plan->req.mixed_memory && w->size > 1;
}

/* Chunks that one gather inside the node spreads. */
static uint32_t messages_per_gather(const pipeline_t *w)
{
    uint64_t messages = SPREAD_BYTES / w->chunk;

    return messages < 1 ? 1 : messages > SPREAD_MESSAGES ? SPREAD_MESSAGES : (uint32_t)messages;
}

/* Spreads the blocks of node `home` inside our node. `had`: receives before the first of those blocks that we carry. */
static void spread(pipeline_t *w, int home, uint32_t had)
{
    int size = dma_node_map_size(w->l, home);
    uint32_t step = messages_per_gather(w);

    for (int round = 0; round * w->size < size; round++) {
        int own = round * w->size + w->l->index;
        uint32_t carried = own < size ? chunks_of(w, block_bytes(w, home, own)) : 0, most = 0;

        for (int i = 0; i < w->size && round * w->size + i < size; i++) {
            uint32_t chunks = chunks_of(w, block_bytes(w, home, round * w->size + i));

            most = chunks > most ? chunks : most;
        }
        for (uint32_t c = 0; w->size > 1 && c < most; c += step) {
            dma_cluster_op_t *op = dma_cluster_local(w->plan, DMA_CLUSTER_GATHER);

            op->blocks = true;
            op->range.node = (uint32_t)home;
            op->range.round = (uint32_t)round;
            op->range.skip = c * w->chunk;
            op->range.max_bytes = step * w->chunk;
            op->to = dma_cluster_addr(DMA_CLUSTER_IN, 0);
            op->from = dma_cluster_addr(DMA_CLUSTER_IN, dma_cluster_part(w->plan, op, w->l->index).to);
            if (home == w->l->node && own_by_gather(w)) {
                op->from = dma_cluster_addr(DMA_CLUSTER_OUT, (int64_t)op->range.skip);
            }
            if (home != w->l->node) {
                op->need[DMA_LANE_RECV] = had + (c + step < carried ? c + step : carried);
            }
        }
        had += carried;
    }
}

/* Copies our own block to its place, and spreads the blocks of our own node. */
static void place_own_node(pipeline_t *w)
{
    const dma_cluster_req_t *req = &w->plan->req;
    uint64_t bytes = dma_blocks_bytes(&req->recv, (uint64_t)w->l->rank);

    if (!req->in_place && bytes && !own_by_gather(w)) {
        dma_cluster_copy(w->plan, true, dma_cluster_recv_block(w->plan, w->l->rank),
                         dma_cluster_addr(DMA_CLUSTER_OUT, 0), bytes);
    }
    spread(w, w->l->node, 0);
}

static void build_pipeline(dma_cluster_plan_t *plan, bool ring)
{
    const dma_node_map_t *l = plan->req.node_map;
    pipeline_t w = {.plan = plan, .l = l, .ring = ring};
    uint32_t had = 0, before = 0;
    uint64_t most = 1;

    w.size = dma_node_map_size(l, l->node);
    for (int r = 0; r < l->nranks; r++) {
        uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)r);

        most = bytes > most ? bytes : most;
    }
    w.chunk = dma_cluster_chunk(&plan->req, most);
    w.chunks = chunks_of(&w, most);
    place_own_node(&w);
    for (int k = 1; k < l->nnodes; k++) {
        int home = dma_node_map_shift(l, l->node, -k), last = dma_node_map_shift(l, l->node, 1 - k);
        int to = dma_node_map_shift(l, l->node, ring ? 1 : k), from = dma_node_map_shift(l, l->node, ring ? -1 : -k);

        for (int j = l->index; j < dma_node_map_size(l, home); j += w.size) {
            receive_block(&w, home, j, k, from);
        }
        if (!ring || k == 1) {
            send_block(&w, l->node, l->index, k, to, had, plan->nops[DMA_LANE_RECV] - had);
        }
        for (int j = l->index; ring && k > 1 && j < dma_node_map_size(l, last); j += w.size) {
            send_block(&w, last, j, k, to, before, 0);
            before += chunks_of(&w, block_bytes(&w, last, j));
        }
        before = had;
        spread(&w, home, had);
        had = plan->nops[DMA_LANE_RECV];
    }
}

static void build_ring(dma_cluster_plan_t *plan)
{
    build_pipeline(plan, true);
}

static void build_direct(dma_cluster_plan_t *plan)
{
    build_pipeline(plan, false);
}

/* ---- rails and leader ---- */

/* Bytes of the blocks that one rank of a node sends: its own, or, as the leader, all of its node. */
static uint64_t carried_bytes(const dma_cluster_plan_t *plan, int node, int index, bool leader)
{
    const dma_node_map_t *l = plan->req.node_map;
    uint64_t bytes = 0;

    for (int j = leader ? 0 : index; j < (leader ? dma_node_map_size(l, node) : index + 1); j++) {
        bytes += dma_blocks_bytes(&plan->req.recv, (uint64_t)dma_node_map_rank(l, node, j));
    }
    return bytes;
}

/* Bytes of the slots in scratch of `distance` nodes, from our own node on. */
static uint64_t slot_bytes(const dma_cluster_plan_t *plan, int index, bool leader, int distance)
{
    const dma_node_map_t *l = plan->req.node_map;
    uint64_t bytes = 0;

    for (int k = 0; k < distance; k++) {
        bytes += carried_bytes(plan, dma_node_map_shift(l, l->node, k), index, leader);
    }
    return bytes;
}

/* Bruck's rounds. In each round we send the slots that we have to the node `have` nodes before us and receive as many
 * from the node `have` nodes after us, or as many as are missing. */
static void bruck_rounds(dma_cluster_plan_t *plan, bool leader, uint32_t packed)
{
    const dma_node_map_t *l = plan->req.node_map;
    uint32_t round = 0;

    for (int have = 1, count; have < l->nnodes; have += count) {
        int left = l->nnodes - have, to = dma_node_map_shift(l, l->node, -have),
            from = dma_node_map_shift(l, l->node, have);
        uint64_t at = slot_bytes(plan, l->index, leader, have), send, receive;
        dma_cluster_op_t *op;

        count = left < have ? left : have;
        send = slot_bytes(plan, l->index, leader, count);
        receive = slot_bytes(plan, l->index, leader, have + count) - at;
        op = dma_cluster_send(plan, dma_node_map_rank(l, to, l->index), round, dma_cluster_addr(DMA_CLUSTER_TEMP, 0),
                              send);
        op->need[DMA_LANE_LOCAL] = packed;
        op->need[DMA_LANE_RECV] = round;
        dma_cluster_recv(plan, dma_node_map_rank(l, from, l->index), round,
                         dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at), receive);
        round++;
    }
}

/* Copies a block into scratch, or out of it when all messages have been received. Return its bytes. */
static uint64_t pack(dma_cluster_plan_t *plan, bool fresh, int rank, uint64_t at)
{
    uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)rank);

    dma_cluster_copy(plan, fresh, dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at), dma_cluster_recv_block(plan, rank),
                     bytes);
    return bytes;
}

static uint64_t unpack(dma_cluster_plan_t *plan, bool fresh, int rank, uint64_t at)
{
    uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)rank);
    dma_cluster_op_t *op = dma_cluster_copy(plan, fresh, dma_cluster_recv_block(plan, rank),
                                            dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at), bytes);

    op->need[DMA_LANE_RECV] = plan->nops[DMA_LANE_RECV];
    return bytes;
}

static void build_leader(dma_cluster_plan_t *plan)
{
    const dma_node_map_t *l = plan->req.node_map;
    uint64_t own = carried_bytes(plan, l->node, 0, true), all = slot_bytes(plan, 0, true, l->nnodes), at = 0;
    int size = dma_node_map_size(l, l->node);
    pipeline_t w = {.plan = plan, .l = l, .chunk = UINT64_MAX / 2, .size = size};
    dma_cluster_op_t *op;

    plan->temp_bytes = all;
    place_own_node(&w);
    if (l->index == 0) {
        for (int j = 0; j < size; j++) {
            at += pack(plan, j == 0, dma_node_map_rank(l, l->node, j), at);
        }
        bruck_rounds(plan, true, plan->nops[DMA_LANE_LOCAL]);
    }
    if (size > 1) {
        op = dma_cluster_local(plan, DMA_CLUSTER_GATHER);
        dma_cluster_parts(plan, op)[0] = (dma_cluster_part_t){.to = (int64_t)own, .get = all - own};
        op->from = op->to = dma_cluster_addr(DMA_CLUSTER_TEMP, 0);
        op->from.at = (int64_t)own;
        op->need[DMA_LANE_RECV] = plan->nops[DMA_LANE_RECV];
    }
    at = own;
    for (int k = 1; k < l->nnodes; k++) {
        int node = dma_node_map_shift(l, l->node, k);

        for (int j = 0; j < dma_node_map_size(l, node); j++) {
            at += unpack(plan, k == 1 && j == 0, dma_node_map_rank(l, node, j), at);
        }
    }
}

static const char *unfit_rails(const dma_cluster_req_t *req)
{
    return req->node_map->max_size == req->node_map->min_size ? NULL : "nodes have different numbers of ranks";
}

static void build_rails(dma_cluster_plan_t *plan)
{
    const dma_node_map_t *l = plan->req.node_map;
    uint64_t mine = slot_bytes(plan, l->index, false, l->nnodes), at = mine;
    int size = dma_node_map_size(l, l->node);
    dma_cluster_op_t *op;

    plan->temp_bytes = mine;
    dma_cluster_copy(plan, true, dma_cluster_addr(DMA_CLUSTER_TEMP, 0), dma_cluster_addr(DMA_CLUSTER_OUT, 0),
                     dma_blocks_bytes(&plan->req.recv, (uint64_t)l->rank));
    bruck_rounds(plan, false, 1);
    if (size > 1) {
        dma_cluster_part_t *parts;

        op = dma_cluster_local(plan, DMA_CLUSTER_GATHER);
        parts = dma_cluster_parts(plan, op);
        for (int i = 0; i < size; i++) {
            parts[i] = (dma_cluster_part_t){.to = (int64_t)at, .get = slot_bytes(plan, i, false, l->nnodes)};
            at += parts[i].get;
        }
        plan->temp_bytes = at;
        op->from = op->to = dma_cluster_addr(DMA_CLUSTER_TEMP, 0);
        op->need[DMA_LANE_RECV] = plan->nops[DMA_LANE_RECV];
        at = mine;
    } else {
        at = 0;
    }
    for (int i = 0; i < size; i++) {
        for (int k = 0; k < l->nnodes; k++) {
            int rank = dma_node_map_rank(l, dma_node_map_shift(l, l->node, k), i);

            at += unpack(plan, i == 0 && k == 0, rank, at);
        }
    }
}

const dma_cluster_variant_t dma_cluster_ring = {
    .name = "cluster_ring",
    .help = "all-gather: blocks go around the nodes on all adapters, spread inside as they land",
    .serves = DMA_SENDS_ONE | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .build = build_ring,
    .cost = dma_cluster_cost_ring,
};

const dma_cluster_variant_t dma_cluster_direct = {
    .name = "cluster_direct",
    .help = "all-gather: every block goes straight to every node, spread inside as it lands",
    .serves = DMA_SENDS_ONE | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .build = build_direct,
    .cost = dma_cluster_cost_direct,
};

const dma_cluster_variant_t dma_cluster_rails = {
    .name = "cluster_rails",
    .help = "all-gather: a logarithm of rounds on all adapters, then one gather inside the node",
    .serves = DMA_SENDS_ONE | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .unfit = unfit_rails,
    .build = build_rails,
    .cost = dma_cluster_cost_rails,
};

const dma_cluster_variant_t dma_cluster_leader = {
    .name = "cluster_leader",
    .help = "all-gather: a logarithm of rounds between one rank of each node",
    .serves = DMA_SENDS_ONE | DMA_SIZES_EQUAL | DMA_SIZES_SHARED,
    .build = build_leader,
    .cost = dma_cluster_cost_leader,
};
