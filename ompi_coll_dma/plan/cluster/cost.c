/*
 * The cost model of calls between nodes.
 *
 * A call is a sequence of steps: messages and collectives inside the node. A message costs a latency, the work of a
 * core at both ends, which has a fixed part and a part per byte, and the time of its bytes on an adapter that several
 * ranks share. A collective costs a fixed time and the time of its bytes. If two kinds of steps overlap, the slower
 * one counts, plus the first step of the other. The model assumes that every node has as many ranks as the largest.
 *
 * Large blocks travel in chunks. An adapter is busy from the first to the last chunk. Only the first chunk pays the
 * latency, once, or, if it goes around the nodes, once per node.
 */
#include "plan/cluster/cost.h"

#include "plan/profile.h"

typedef struct shape {
    const dma_net_profile_t *net;
    uint64_t nodes, size, m;
    uint64_t chunk, chunks; /* bytes of the largest chunk of a block; chunks per block */
} shape_t;

static shape_t shape_of(const dma_net_profile_t *net, const dma_node_map_t *l, uint64_t bytes)
{
    uint64_t chunk = dma_net_profile_chunk(net, false);

    return (shape_t){.net = net,
                     .nodes = (uint64_t)l->nnodes,
                     .size = (uint64_t)l->max_size,
                     .m = bytes,
                     .chunk = bytes < chunk ? bytes : chunk,
                     .chunks = bytes ? (bytes - 1) / chunk + 1 : 1};
}

static dma_wide_t div_up(dma_wide_t all, dma_wide_t part)
{
    return part ? (all + part - 1) / part : 0;
}

/* Rates are bytes per microsecond. */
static dma_wide_t transfer_ps(dma_wide_t bytes, uint64_t mbps)
{
    return bytes * 1000000 / mbps;
}

/* The time on the adapters if each of `users` ranks of a node sends `bytes` bytes at the same time. */
static dma_wide_t wire_ps(const shape_t *s, dma_wide_t bytes, uint64_t users)
{
    dma_wide_t rails = s->net->rails < users ? s->net->rails : users;

    bytes = users ? bytes * users / rails : 0;
    return bytes > s->net->burst_bytes ? transfer_ps(bytes - s->net->burst_bytes, s->net->nic_mbps) : 0;
}

/* The work of a core for `n` messages sent and as many received, with `bytes` bytes in each direction. */
static dma_wide_t message_ps_of(const shape_t *s, dma_wide_t n, dma_wide_t bytes)
{
    return 2 * (n * s->net->message_ps + transfer_ps(bytes, s->net->stack_mbps));
}

/* The time of the cores of a node for the work `all` of its ranks, of which one rank has `most`. No rank waits,
 * except for a core that it shares. */
static dma_wide_t core_ps(const shape_t *s, dma_wide_t most, dma_wide_t all)
{
    return dma_wide_max(most, all * s->net->core_ranks / s->size);
}

/* The same if each rank has the work `each`. */
static dma_wide_t core_ps_of_each(const shape_t *s, dma_wide_t each)
{
    return core_ps(s, each, each * s->size);
}

/* A collective inside the node that brings every rank `bytes` bytes from each other rank, over parallel links. */
static dma_wide_t local_ps(const shape_t *s, dma_wide_t bytes)
{
    return s->size > 1 ? s->net->local_ps + transfer_ps(bytes, s->net->local_mbps)
                       : transfer_ps(bytes, s->net->copy_mbps);
}

static dma_wide_t copy_ps(const shape_t *s, dma_wide_t bytes)
{
    return transfer_ps(bytes, s->net->copy_mbps);
}

static uint64_t clamp(dma_wide_t t)
{
    return t > UINT64_MAX - 1 ? UINT64_MAX - 1 : (uint64_t)t;
}

static uint64_t rounds(uint64_t nodes)
{
    uint64_t n = 0;

    while ((UINT64_C(1) << n) < nodes) {
        n++;
    }
    return n;
}

/* The collectives that spread the blocks of all nodes inside the node, one chunk each. */
static dma_wide_t spread_ps(const shape_t *s)
{
    return ((s->chunks - 1) * local_ps(s, 0) + local_ps(s, s->m)) * s->nodes;
}

/* The work of the cores for the chunks of the `blocks` blocks that each rank sends. Ranks that share cores cannot
 * overlap it with the spreading. */
static dma_wide_t send_work_ps(const shape_t *s, dma_wide_t blocks)
{
    return core_ps_of_each(s, message_ps_of(s, blocks * s->chunks, blocks * s->m)) +
           (s->net->core_ranks > 1 ? spread_ps(s) : 0);
}

/* Chunks of all other nodes' blocks arrive one after the other and are spread inside the node; those of our own node
 * are spread at once. The slower of network and spreading is busy all the time. `net`: the time until the last chunk
 * arrives. */
static uint64_t pipeline_ps(const shape_t *s, dma_wide_t net)
{
    return clamp(dma_wide_max(net + local_ps(s, s->chunk), spread_ps(s) + copy_ps(s, s->m)));
}

uint64_t dma_cluster_cost_ring(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t others = s.nodes - 1, first = net->latency_ps + core_ps_of_each(&s, message_ps_of(&s, 1, s.chunk));
    dma_wide_t busy = dma_wide_max(wire_ps(&s, others * s.m, s.size), send_work_ps(&s, others));

    (void)coll;
    return pipeline_ps(&s, dma_wide_max(first + busy, others * (first + wire_ps(&s, s.chunk, s.size))));
}

uint64_t dma_cluster_cost_direct(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t others = s.nodes - 1, busy = wire_ps(&s, others * s.m, s.size);

    (void)coll;
    busy += s.nodes > 2 ? busy / 8 : 0; /* several senders use one receiving adapter at the same time */
    return pipeline_ps(&s, net->latency_ps + dma_wide_max(busy, send_work_ps(&s, others)));
}

uint64_t dma_cluster_cost_rails(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t t = (dma_wide_t)rounds(s.nodes) * (net->latency_ps + core_ps_of_each(&s, message_ps_of(&s, 1, 0))),
               others = (s.nodes - 1) * s.m;

    (void)coll;
    t += dma_wide_max(wire_ps(&s, others, s.size), core_ps_of_each(&s, message_ps_of(&s, 0, others)));
    return clamp(t + local_ps(&s, s.nodes * s.m) + copy_ps(&s, s.nodes * s.size * s.m));
}

uint64_t dma_cluster_cost_leader(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t node = (dma_wide_t)s.size * s.m, others = (s.nodes - 1) * node, t;
    dma_wide_t one = message_ps_of(&s, 1, 0), all = message_ps_of(&s, 0, others);

    (void)coll;
    t = (dma_wide_t)rounds(s.nodes) * (net->latency_ps + core_ps(&s, one, one));
    t += dma_wide_max(wire_ps(&s, others, 1), core_ps(&s, all, all));
    if (s.size > 1) {
        t += local_ps(&s, s.m) + local_ps(&s, s.nodes * node);
    }
    return clamp(t + copy_ps(&s, s.nodes * node));
}

uint64_t dma_cluster_cost_split(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t n = (dma_wide_t)(s.nodes - 1) * s.size, inner = local_ps(&s, s.m);

    (void)coll;
    return clamp(
        net->latency_ps +
        dma_wide_max(core_ps_of_each(&s, message_ps_of(&s, n * s.chunks, n * s.m)), wire_ps(&s, n * s.m, s.size)) +
        inner);
}

uint64_t dma_cluster_cost_transpose(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll,
                                    uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t others = (dma_wide_t)(s.nodes - 1) * s.size * s.m, inner = local_ps(&s, (s.nodes - 1) * s.m);

    (void)coll;
    return clamp(
        net->latency_ps +
        dma_wide_max(core_ps_of_each(&s, message_ps_of(&s, s.nodes - 1, others)), wire_ps(&s, others, s.size)) + inner +
        local_ps(&s, s.m) + copy_ps(&s, 3 * others));
}

uint64_t dma_cluster_cost_pairs(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    dma_wide_t turns = div_up(s.nodes - 1, s.size), users = s.nodes - 1 < s.size ? s.nodes - 1 : s.size;
    dma_wide_t rails =
        net->rails < users ? net->rails : users; /* the busiest adapter, not the sum over the ranks' turns */
    dma_wide_t pair = (dma_wide_t)s.size * s.size * s.m, others = (dma_wide_t)(s.nodes - 1) * s.size * s.m;
    dma_wide_t one = message_ps_of(&s, 1, pair), busy = core_ps(&s, turns * one, (s.nodes - 1) * one);

    (void)coll;
    return clamp(net->latency_ps + dma_wide_max(busy, wire_ps(&s, div_up(s.nodes - 1, rails) * pair, 1)) +
                 2 * local_ps(&s, turns * s.size * s.m + s.m) + copy_ps(&s, 5 * others + 2 * s.size * s.m));
}
