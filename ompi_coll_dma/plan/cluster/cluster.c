/* Cluster plans: the writer, and the choice of a variant. See cluster.h. */
#include "plan/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY     8 /* operations that a lane has room for at first; doubled when it is full */
#define SEND_WINDOW        8 /* sends in progress: enough to keep an adapter busy */
#define MAX_OPS_WITH_PARTS 4 /* no plan has more operations with parts */

/* The table of algorithms. If two have the same predicted cost, the first is chosen. */
extern const dma_cluster_variant_t dma_cluster_ring, dma_cluster_direct, dma_cluster_rails, dma_cluster_leader;
extern const dma_cluster_variant_t dma_cluster_split, dma_cluster_transpose, dma_cluster_pairs;

const dma_cluster_variant_t *const dma_cluster_variants[] = {
    &dma_cluster_ring,  &dma_cluster_direct,    &dma_cluster_rails, &dma_cluster_leader,
    &dma_cluster_split, &dma_cluster_transpose, &dma_cluster_pairs, NULL,
};

static dma_cluster_op_t *next_op(dma_cluster_plan_t *plan, dma_cluster_lane_t lane)
{
    if (plan->nops[lane] == plan->capacity[lane]) {
        uint32_t room = plan->capacity[lane] ? 2 * plan->capacity[lane] : FIRST_CAPACITY;
        dma_cluster_op_t *ops = realloc(plan->ops[lane], room * sizeof(*ops));

        if (!ops) {
            plan->failed = true;
            return &plan->spare;
        }
        plan->ops[lane] = ops;
        plan->capacity[lane] = room;
    }
    plan->ops[lane][plan->nops[lane]] = (dma_cluster_op_t){.peer = -1};
    return &plan->ops[lane][plan->nops[lane]++];
}

dma_cluster_op_t *dma_cluster_send(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t from,
                                   uint64_t bytes)
{
    dma_cluster_op_t *op = next_op(plan, DMA_LANE_SEND);

    op->code = DMA_CLUSTER_SEND;
    op->peer = peer;
    op->step = step;
    op->from = from;
    op->bytes = bytes;
    return op;
}

dma_cluster_op_t *dma_cluster_recv(dma_cluster_plan_t *plan, int peer, uint32_t step, dma_cluster_addr_t to,
                                   uint64_t bytes)
{
    dma_cluster_op_t *op = next_op(plan, DMA_LANE_RECV);

    op->code = DMA_CLUSTER_RECV;
    op->peer = peer;
    op->step = step;
    op->to = to;
    op->bytes = bytes;
    return op;
}

/* Whether the piece continues `op`: it is adjacent to it, or repeats it at the same distance. */
static bool extends(dma_cluster_op_t *op, dma_cluster_addr_t to, dma_cluster_addr_t from, uint64_t bytes)
{
    int64_t into = to.at - op->to.at, out = from.at - op->from.at;

    if (op->to.base != to.base || op->from.base != from.base) {
        return false;
    }
    if (op->rows == 1 && into == (int64_t)op->bytes && out == (int64_t)op->bytes) {
        op->bytes += bytes;
        return true;
    }
    if (bytes != op->bytes) {
        return false;
    }
    if (op->rows == 1) {
        op->to_pitch = into;
        op->from_pitch = out;
    } else if (into != op->to_pitch * (int64_t)op->rows || out != op->from_pitch * (int64_t)op->rows) {
        return false;
    }
    op->rows++;
    return true;
}

dma_cluster_op_t *dma_cluster_copy(dma_cluster_plan_t *plan, bool fresh, dma_cluster_addr_t to, dma_cluster_addr_t from,
                                   uint64_t bytes)
{
    dma_cluster_op_t *op =
        plan->nops[DMA_LANE_LOCAL] ? &plan->ops[DMA_LANE_LOCAL][plan->nops[DMA_LANE_LOCAL] - 1] : NULL;

    if (!fresh && op && op->code == DMA_CLUSTER_COPY && (!bytes || extends(op, to, from, bytes))) {
        return op;
    }
    op = dma_cluster_local(plan, DMA_CLUSTER_COPY);
    op->to = to;
    op->from = from;
    op->bytes = bytes;
    op->rows = 1;
    return op;
}

dma_cluster_op_t *dma_cluster_local(dma_cluster_plan_t *plan, dma_cluster_code_t code)
{
    dma_cluster_op_t *op = next_op(plan, DMA_LANE_LOCAL);

    op->code = (uint8_t)code;
    return op;
}

dma_cluster_part_t *dma_cluster_parts(dma_cluster_plan_t *plan, dma_cluster_op_t *op)
{
    const dma_node_map_t *l = plan->req.node_map;

    op->first = plan->nparts;
    plan->nparts += (uint32_t)dma_node_map_size(l, l->node);
    return plan->parts + op->first;
}

dma_cluster_part_t dma_cluster_part(const dma_cluster_plan_t *plan, const dma_cluster_op_t *op, int i)
{
    const dma_node_map_t *l = plan->req.node_map;
    dma_cluster_part_t part = {0};
    uint64_t bytes, left;
    int at, rank;

    if (!op->blocks) {
        return plan->parts[op->first + (uint32_t)i];
    }
    at = (int)op->range.round * dma_node_map_size(l, l->node) + i;
    if (at >= dma_node_map_size(l, (int)op->range.node)) {
        return part;
    }
    rank = dma_node_map_rank(l, (int)op->range.node, at);
    bytes = dma_blocks_bytes(&plan->req.recv, (uint64_t)rank);
    left = bytes > op->range.skip ? bytes - op->range.skip : 0;
    part.get = left < op->range.max_bytes ? left : op->range.max_bytes;
    part.to = dma_cluster_recv_block(plan, rank).at + (int64_t)op->range.skip;
    return part;
}

uint64_t dma_cluster_chunk(const dma_cluster_req_t *req, uint64_t bytes)
{
    uint64_t pieces, least;

    if (bytes <= req->chunk) {
        return req->chunk;
    }
    pieces = DMA_CLUSTER_MESSAGES / (uint64_t)req->node_map->nranks;
    pieces = pieces > DMA_CLUSTER_PIECES ? DMA_CLUSTER_PIECES : pieces ? pieces : 1;
    least = (bytes + pieces - 1) / pieces;
    return least > req->chunk ? least : req->chunk;
}

int dma_cluster_variant_find(const char *name)
{
    for (int v = 0; dma_cluster_variants[v]; v++) {
        if (!strcmp(dma_cluster_variants[v]->name, name)) {
            return v;
        }
    }
    return -1;
}

static const char *why_unfit(const dma_cluster_req_t *req, int variant)
{
    const dma_cluster_variant_t *v = dma_cluster_variants[variant];

    if (!dma_coll_is_served(req->coll, v->serves)) {
        return "it does not do this operation";
    }
    return v->unfit ? v->unfit(req) : NULL;
}

int dma_cluster_choose(const dma_net_profile_t *profile, const dma_cluster_req_t *req, uint64_t bytes, int forced,
                       const char **reason)
{
    uint64_t best_cost = UINT64_MAX;
    int best = -1;

    *reason = forced >= 0 ? why_unfit(req, forced) : NULL;
    if (forced >= 0 && !*reason) {
        return forced;
    }
    for (int v = 0; dma_cluster_variants[v]; v++) {
        uint64_t cost;

        if (!why_unfit(req, v) &&
            (cost = dma_cluster_variants[v]->cost(profile, req->node_map, req->coll, bytes)) < best_cost) {
            best = v;
            best_cost = cost;
        }
    }
    return best;
}

dma_status_t dma_cluster_build(const dma_cluster_req_t *req, int variant, dma_cluster_plan_t **result)
{
    dma_cluster_plan_t *plan = calloc(1, sizeof(*plan));

    if (!plan) {
        return DMA_ERR_NOMEM;
    }
    plan->parts = calloc(MAX_OPS_WITH_PARTS * (size_t)dma_node_map_size(req->node_map, req->node_map->node),
                         sizeof(*plan->parts));
    if (!plan->parts) {
        free(plan);
        return DMA_ERR_NOMEM;
    }
    plan->req = *req;
    plan->variant = variant;
    plan->window[DMA_LANE_SEND] = SEND_WINDOW;
    plan->window[DMA_LANE_RECV] = UINT32_MAX; /* no limit */
    plan->window[DMA_LANE_LOCAL] = 1;         /* node-local collectives match in order */
    dma_cluster_variants[variant]->build(plan);
    if (plan->failed) {
        dma_cluster_free(plan);
        return DMA_ERR_NOMEM;
    }
    *result = plan;
    return DMA_OK;
}

void dma_cluster_free(dma_cluster_plan_t *plan)
{
    for (int lane = 0; plan && lane < DMA_LANES; lane++) {
        free(plan->ops[lane]);
    }
    if (plan) {
        free(plan->parts);
    }
    free(plan);
}

size_t dma_cluster_bytes(const dma_cluster_plan_t *plan)
{
    size_t bytes = sizeof(*plan) + plan->nparts * sizeof(*plan->parts);

    for (int lane = 0; lane < DMA_LANES; lane++) {
        bytes += plan->capacity[lane] * sizeof(*plan->ops[lane]);
    }
    return bytes;
}
