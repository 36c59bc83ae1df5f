/*
 * All-gathers between nodes.
 *
 *     cluster_ring    Blocks go around the nodes. A block is carried, in every node, by one rank: the one of the same
 *                     index, or where a node has fewer ranks, of its index modulo their number. So every adapter works, and
 *                     each node hears from one other at a time. What has landed is spread inside the node while the next
 *                     is under way, several messages in one collective where they are small: one costs as much as tens
 *                     of kilobytes, most of all on GPUs.
 *     cluster_direct  The same without going around: every rank sends its block to its carrier in every node.
 *     cluster_rails   Small blocks: Bruck's algorithm between the ranks of equal index, blocks in scratch, then one
 *                     gather inside the node. All nodes must have as many ranks.
 *     cluster_leader  The same with one rank per node for all its blocks: fewer messages, one adapter.
 *
 * In the scratch of the last two, nodes are in rotated order, our own first:
 *
 *     rails    | own | node+1's | node+2's | ...    then, behind it, as much from every rank of the node, by index
 *     leader   | all of own node | all of node+1 | ...
 */
#include "plan/cluster/cluster.h"
#include "plan/cluster/cost.h"

#define SPREAD_BYTES    (UINT64_C(128) << 10)
#define SPREAD_MESSAGES 8

/* ---- ring and direct ---- */

typedef struct walk {
    dma_cluster_plan_t *plan;
    const dma_node_map_t *l;
    uint64_t chunk;
    uint32_t chunks; /* of the largest block */
    int size;        /* ranks of this node */
    bool ring;
} walk_t;

static uint64_t block_bytes(const walk_t *w, int node, int j)
{
    return dma_blocks_bytes(&w->plan->req.recv, (uint64_t)dma_node_map_rank(w->l, node, j));
}

static uint32_t chunks_of(const walk_t *w, uint64_t bytes)
{
    return (uint32_t)(bytes / w->chunk + (bytes % w->chunk != 0)); /* cannot wrap for any chunk size */
}

/* Block j of a node's, chunk c, on its way `distance` nodes from home: the same number on both sides. */
static uint32_t step_of(const walk_t *w, int distance, int j, uint32_t c)
{
    return ((uint32_t)distance * (uint32_t)w->l->most + (uint32_t)j) * w->chunks + c;
}

static uint64_t chunk_bytes(const walk_t *w, uint64_t bytes, uint32_t c)
{
    uint64_t left = bytes - c * w->chunk;

    return left < w->chunk ? left : w->chunk;
}

/* Of our own block: not more than so many messages before what has come, of the next `due` messages. */
static uint32_t pace(uint32_t had, uint32_t c, uint32_t due)
{
    uint32_t want = had + c + 1 > DMA_CLUSTER_AHEAD ? had + c + 1 - DMA_CLUSTER_AHEAD : 0;

    return want < had + due ? want : had + due;
}

/* What we carry of a block that has come from its home `distance` nodes back, to the next node; `had`: receives before
 * its own, or our own block: receives before those of this step, of which there are `due`. */
static void send_on(walk_t *w, int home, int j, int distance, int to, uint32_t had, uint32_t due)
{
    int size = dma_node_map_size(w->l, to), peer = dma_node_map_rank(w->l, to, j % size);
    int rank = dma_node_map_rank(w->l, home, j);
    uint64_t bytes = block_bytes(w, home, j);

    for (uint32_t c = 0; c < chunks_of(w, bytes); c++) {
        bool own = rank == w->l->rank;
        dma_cluster_place_t from = own ? dma_place_at(DMA_CLUSTER_OUT, 0) : dma_place_in(w->plan, rank);
        dma_cluster_op_t *op;

        from.at += (int64_t)(c * w->chunk);
        op = dma_cluster_send(w->plan, peer, step_of(w, distance, j, c), from, chunk_bytes(w, bytes, c));
        op->need[DMA_RECEIVED] = own ? pace(had, c, due) : had + c + 1;
    }
}

static void receive(walk_t *w, int home, int j, int distance, int from)
{
    int size = dma_node_map_size(w->l, from);
    int peer = dma_node_map_rank(w->l, from, w->ring ? j % size : j), rank = dma_node_map_rank(w->l, home, j);
    uint64_t bytes = block_bytes(w, home, j);

    for (uint32_t c = 0; c < chunks_of(w, bytes); c++) {
        dma_cluster_place_t to = dma_place_in(w->plan, rank);

        to.at += (int64_t)(c * w->chunk);
        dma_cluster_recv(w->plan, peer, step_of(w, distance, j, c), to, chunk_bytes(w, bytes, c));
    }
}

/* Our own block goes to its place with the others of our node. */
static bool own_straight(const walk_t *w)
{
    return !w->plan->req.in_place && !w->plan->req.apart && w->size > 1;
}

/* Messages that are spread inside the node in one collective: where they are small, as many as are worth one. */
static uint32_t worth_one(const walk_t *w)
{
    uint64_t messages = SPREAD_BYTES / w->chunk;

    return messages < 1 ? 1 : messages > SPREAD_MESSAGES ? SPREAD_MESSAGES : (uint32_t)messages;
}

/* The blocks of a node, inside ours: `had` receives come before the first of those that we carry. */
static void spread(walk_t *w, int home, uint32_t had)
{
    int size = dma_node_map_size(w->l, home);
    uint32_t step = worth_one(w);

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
            op->of.node = (uint32_t)home;
            op->of.round = (uint32_t)round;
            op->of.skip = c * w->chunk;
            op->of.most = step * w->chunk;
            op->to = dma_place_at(DMA_CLUSTER_IN, 0);
            op->from = dma_place_at(DMA_CLUSTER_IN, dma_cluster_part(w->plan, op, w->l->index).to);
            if (home == w->l->node && own_straight(w)) {
                op->from = dma_place_at(DMA_CLUSTER_OUT, (int64_t)op->of.skip);
            }
            if (home != w->l->node) {
                op->need[DMA_RECEIVED] = had + (c + step < carried ? c + step : carried);
            }
        }
        had += carried;
    }
}

/* Our own block at its place, and the blocks of our node. */
static void begin(walk_t *w)
{
    const dma_cluster_req_t *req = &w->plan->req;
    uint64_t bytes = dma_blocks_bytes(&req->recv, (uint64_t)w->l->rank);

    if (!req->in_place && bytes && !own_straight(w)) {
        dma_cluster_copy(w->plan, true, dma_place_in(w->plan, w->l->rank), dma_place_at(DMA_CLUSTER_OUT, 0), bytes);
    }
    spread(w, w->l->node, 0);
}

static void build_walk(dma_cluster_plan_t *plan, bool ring)
{
    const dma_node_map_t *l = plan->req.layout;
    walk_t w = {.plan = plan, .l = l, .ring = ring};
    uint32_t had = 0, before = 0;
    uint64_t most = 1;

    w.size = dma_node_map_size(l, l->node);
    for (int r = 0; r < l->nranks; r++) {
        uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)r);

        most = bytes > most ? bytes : most;
    }
    w.chunk = dma_cluster_chunk(&plan->req, most);
    w.chunks = chunks_of(&w, most);
    begin(&w);
    for (int k = 1; k < l->nnodes; k++) {
        int home = dma_node_map_turn(l, l->node, -k), last = dma_node_map_turn(l, l->node, 1 - k);
        int to = dma_node_map_turn(l, l->node, ring ? 1 : k), from = dma_node_map_turn(l, l->node, ring ? -1 : -k);

        for (int j = l->index; j < dma_node_map_size(l, home); j += w.size) {
            receive(&w, home, j, k, from);
        }
        if (!ring || k == 1) {
            send_on(&w, l->node, l->index, k, to, had, plan->nops[DMA_RECEIVED] - had);
        }
        for (int j = l->index; ring && k > 1 && j < dma_node_map_size(l, last); j += w.size) {
            send_on(&w, last, j, k, to, before, 0);
            before += chunks_of(&w, block_bytes(&w, last, j));
        }
        before = had;
        spread(&w, home, had);
        had = plan->nops[DMA_RECEIVED];
    }
}

static void build_ring(dma_cluster_plan_t *plan)
{
    build_walk(plan, true);
}

static void build_direct(dma_cluster_plan_t *plan)
{
    build_walk(plan, false);
}

/* ---- rails and leader ---- */

/* Bytes of the blocks that one rank of a node stands for. */
static uint64_t stands_for(const dma_cluster_plan_t *plan, int node, int index, bool leader)
{
    const dma_node_map_t *l = plan->req.layout;
    uint64_t bytes = 0;

    for (int j = leader ? 0 : index; j < (leader ? dma_node_map_size(l, node) : index + 1); j++) {
        bytes += dma_blocks_bytes(&plan->req.recv, (uint64_t)dma_node_map_rank(l, node, j));
    }
    return bytes;
}

/* Bytes of the slots from our own to that of the node at `distance`, without it. */
static uint64_t slots(const dma_cluster_plan_t *plan, int index, bool leader, int distance)
{
    const dma_node_map_t *l = plan->req.layout;
    uint64_t bytes = 0;

    for (int k = 0; k < distance; k++) {
        bytes += stands_for(plan, dma_node_map_turn(l, l->node, k), index, leader);
    }
    return bytes;
}

/* Bruck's rounds: as many slots as we have go to the node so far before us, as many come from the one so far behind. */
static void rounds(dma_cluster_plan_t *plan, bool leader, uint32_t packed)
{
    const dma_node_map_t *l = plan->req.layout;
    uint32_t round = 0;

    for (int have = 1, count; have < l->nnodes; have += count) {
        int left = l->nnodes - have, to = dma_node_map_turn(l, l->node, -have),
            from = dma_node_map_turn(l, l->node, have);
        uint64_t at = slots(plan, l->index, leader, have), send, receive;
        dma_cluster_op_t *op;

        count = left < have ? left : have;
        send = slots(plan, l->index, leader, count);
        receive = slots(plan, l->index, leader, have + count) - at;
        op = dma_cluster_send(plan, dma_node_map_rank(l, to, l->index), round, dma_place_at(DMA_CLUSTER_TEMP, 0), send);
        op->need[DMA_LOCAL] = packed;
        op->need[DMA_RECEIVED] = round;
        dma_cluster_recv(plan, dma_node_map_rank(l, from, l->index), round, dma_place_at(DMA_CLUSTER_TEMP, (int64_t)at),
                         receive);
        round++;
    }
}

/* A block to its place in scratch, or from there once everything has come. Returns its bytes. */
static uint64_t pack(dma_cluster_plan_t *plan, bool fresh, int rank, uint64_t at)
{
    uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)rank);

    dma_cluster_copy(plan, fresh, dma_place_at(DMA_CLUSTER_TEMP, (int64_t)at), dma_place_in(plan, rank), bytes);
    return bytes;
}

static uint64_t unpack(dma_cluster_plan_t *plan, bool fresh, int rank, uint64_t at)
{
    uint64_t bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)rank);
    dma_cluster_op_t *op =
        dma_cluster_copy(plan, fresh, dma_place_in(plan, rank), dma_place_at(DMA_CLUSTER_TEMP, (int64_t)at), bytes);

    op->need[DMA_RECEIVED] = plan->nops[DMA_RECEIVED];
    return bytes;
}

static void build_leader(dma_cluster_plan_t *plan)
{
    const dma_node_map_t *l = plan->req.layout;
    uint64_t own = stands_for(plan, l->node, 0, true), all = slots(plan, 0, true, l->nnodes), at = 0;
    int size = dma_node_map_size(l, l->node);
    walk_t w = {.plan = plan, .l = l, .chunk = UINT64_MAX / 2, .size = size};
    dma_cluster_op_t *op;

    plan->temp_bytes = all;
    begin(&w);
    if (l->index == 0) {
        for (int j = 0; j < size; j++) {
            at += pack(plan, j == 0, dma_node_map_rank(l, l->node, j), at);
        }
        rounds(plan, true, plan->nops[DMA_LOCAL]);
    }
    if (size > 1) {
        op = dma_cluster_local(plan, DMA_CLUSTER_GATHER);
        dma_cluster_parts(plan, op)[0] = (dma_cluster_part_t){.to = (int64_t)own, .get = all - own};
        op->from = op->to = dma_place_at(DMA_CLUSTER_TEMP, 0);
        op->from.at = (int64_t)own;
        op->need[DMA_RECEIVED] = plan->nops[DMA_RECEIVED];
    }
    at = own;
    for (int k = 1; k < l->nnodes; k++) {
        int node = dma_node_map_turn(l, l->node, k);

        for (int j = 0; j < dma_node_map_size(l, node); j++) {
            at += unpack(plan, k == 1 && j == 0, dma_node_map_rank(l, node, j), at);
        }
    }
}

static const char *unfit_rails(const dma_cluster_req_t *req)
{
    return req->layout->most == req->layout->least ? NULL : "nodes have different numbers of ranks";
}

static void build_rails(dma_cluster_plan_t *plan)
{
    const dma_node_map_t *l = plan->req.layout;
    uint64_t mine = slots(plan, l->index, false, l->nnodes), at = mine;
    int size = dma_node_map_size(l, l->node);
    dma_cluster_op_t *op;

    plan->temp_bytes = mine;
    dma_cluster_copy(plan, true, dma_place_at(DMA_CLUSTER_TEMP, 0), dma_place_at(DMA_CLUSTER_OUT, 0),
                     dma_blocks_bytes(&plan->req.recv, (uint64_t)l->rank));
    rounds(plan, false, 1);
    if (size > 1) {
        dma_cluster_part_t *parts;

        op = dma_cluster_local(plan, DMA_CLUSTER_GATHER);
        parts = dma_cluster_parts(plan, op);
        for (int i = 0; i < size; i++) {
            parts[i] = (dma_cluster_part_t){.to = (int64_t)at, .get = slots(plan, i, false, l->nnodes)};
            at += parts[i].get;
        }
        plan->temp_bytes = at;
        op->from = op->to = dma_place_at(DMA_CLUSTER_TEMP, 0);
        op->need[DMA_RECEIVED] = plan->nops[DMA_RECEIVED];
        at = mine;
    } else {
        at = 0;
    }
    for (int i = 0; i < size; i++) {
        for (int k = 0; k < l->nnodes; k++) {
            int rank = dma_node_map_rank(l, dma_node_map_turn(l, l->node, k), i);

            at += unpack(plan, i == 0 && k == 0, rank, at);
        }
    }
}

#define GATHERS (1u << DMA_ALLGATHER | 1u << DMA_ALLGATHERV)

const dma_cluster_variant_t dma_cluster_ring = {
    .name = "cluster_ring",
    .help = "all-gather: blocks go around the nodes on all adapters, spread inside as they land",
    .colls = GATHERS,
    .build = build_ring,
    .cost = dma_cluster_cost_ring,
};

const dma_cluster_variant_t dma_cluster_direct = {
    .name = "cluster_direct",
    .help = "all-gather: every block goes straight to every node, spread inside as it lands",
    .colls = GATHERS,
    .build = build_direct,
    .cost = dma_cluster_cost_direct,
};

const dma_cluster_variant_t dma_cluster_rails = {
    .name = "cluster_rails",
    .help = "all-gather: a logarithm of rounds on all adapters, then one gather inside the node",
    .colls = GATHERS,
    .unfit = unfit_rails,
    .build = build_rails,
    .cost = dma_cluster_cost_rails,
};

const dma_cluster_variant_t dma_cluster_leader = {
    .name = "cluster_leader",
    .help = "all-gather: a logarithm of rounds between one rank of each node",
    .colls = GATHERS,
    .build = build_leader,
    .cost = dma_cluster_cost_leader,
};
