/*
 * The cost model of calls between nodes.
 *
 * A call is a way of steps: messages one after another, each a latency, two times a core's work, of which some is for every
 * byte, and its bytes through an adapter that some ranks share, and collectives inside the node, each a start and its bytes.
 * Where both go on at the same time the slower counts, and of the other its first step. Every node is taken to have as many
 * ranks as the largest.
 *
 * Large blocks travel in chunks: an adapter is busy from the first to the last of them, and only the first chunk has a
 * latency, or where it goes around the nodes one at each.
 */
#include "plan/cluster/cost.h"

typedef unsigned __int128 wide_t;

typedef struct shape {
    const dma_net_profile_t *net;
    uint64_t nodes, size, m;
    uint64_t chunk, chunks; /* bytes of the largest one of a block; how many there are */
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

static wide_t more(wide_t a, wide_t b)
{
    return a > b ? a : b;
}

static wide_t parts(wide_t all, wide_t part)
{
    return part ? (all + part - 1) / part : 0;
}

/* Rates are bytes per microsecond. */
static wide_t time_of(wide_t bytes, uint64_t mbps)
{
    return bytes * 1000000 / mbps;
}

/* `bytes` of each of `users` ranks of a node leave it at the same time. */
static wide_t wire(const shape_t *s, wide_t bytes, uint64_t users)
{
    wide_t rails = s->net->rails < users ? s->net->rails : users;

    bytes = users ? bytes * users / rails : 0;
    return bytes > s->net->burst_bytes ? time_of(bytes - s->net->burst_bytes, s->net->nic_mbps) : 0;
}

/* A core's work for `n` messages that are sent, with so many bytes in all of them, and as many that are received. */
static wide_t traffic(const shape_t *s, wide_t n, wide_t bytes)
{
    return 2 * (n * s->net->message_ps + time_of(bytes, s->net->stack_mbps));
}

/* Ranks of a node have so much work altogether, one of them `most`: without waiting, but for the cores that they share. */
static wide_t cores(const shape_t *s, wide_t most, wide_t all)
{
    return more(most, all * s->net->core_ranks / s->size);
}

/* Each of them has as much. */
static wide_t each(const shape_t *s, wide_t work)
{
    return cores(s, work, work * s->size);
}

/* A collective inside the node that brings every rank so many bytes from each other, over links that work side by side. */
static wide_t inside(const shape_t *s, wide_t bytes)
{
    return s->size > 1 ? s->net->local_ps + time_of(bytes, s->net->local_mbps) : time_of(bytes, s->net->copy_mbps);
}

static wide_t copied(const shape_t *s, wide_t bytes)
{
    return time_of(bytes, s->net->copy_mbps);
}

static uint64_t picoseconds(wide_t t)
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

/* All that is spread inside the node: the blocks of every node, a chunk at a time. */
static wide_t spread(const shape_t *s)
{
    return ((s->chunks - 1) * inside(s, 0) + inside(s, s->m)) * s->nodes;
}

/* What cores have to do for the chunks of so many blocks that each rank sends; where ranks share them, the spreading takes
 * its turn with these. */
static wide_t work(const shape_t *s, wide_t blocks)
{
    return each(s, traffic(s, blocks * s->chunks, blocks * s->m)) + (s->net->core_ranks > 1 ? spread(s) : 0);
}

/* Chunks of all other nodes' blocks land one after the other and are spread, those of our own node at once: what is slower,
 * the network or the spreading, is busy all the time. `net`: until the last chunk has landed. */
static uint64_t walk(const shape_t *s, wide_t net)
{
    return picoseconds(more(net + inside(s, s->chunk), spread(s) + copied(s, s->m)));
}

uint64_t dma_cluster_cost_ring(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t others = s.nodes - 1, first = net->latency_ps + each(&s, traffic(&s, 1, s.chunk));
    wide_t busy = more(wire(&s, others * s.m, s.size), work(&s, others));

    (void)coll;
    return walk(&s, more(first + busy, others * (first + wire(&s, s.chunk, s.size))));
}

uint64_t dma_cluster_cost_direct(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t others = s.nodes - 1, busy = wire(&s, others * s.m, s.size);

    (void)coll;
    busy += s.nodes > 2 ? busy / 8 : 0; /* several senders meet at one adapter */
    return walk(&s, net->latency_ps + more(busy, work(&s, others)));
}

uint64_t dma_cluster_cost_rails(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t t = (wide_t)rounds(s.nodes) * (net->latency_ps + each(&s, traffic(&s, 1, 0))), others = (s.nodes - 1) * s.m;

    (void)coll;
    t += more(wire(&s, others, s.size), each(&s, traffic(&s, 0, others)));
    return picoseconds(t + inside(&s, s.nodes * s.m) + copied(&s, s.nodes * s.size * s.m));
}

uint64_t dma_cluster_cost_leader(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t node = (wide_t)s.size * s.m, others = (s.nodes - 1) * node, t;
    wide_t one = traffic(&s, 1, 0), all = traffic(&s, 0, others);

    (void)coll;
    t = (wide_t)rounds(s.nodes) * (net->latency_ps + cores(&s, one, one));
    t += more(wire(&s, others, 1), cores(&s, all, all));
    if (s.size > 1) {
        t += inside(&s, s.m) + inside(&s, s.nodes * node);
    }
    return picoseconds(t + copied(&s, s.nodes * node));
}

uint64_t dma_cluster_cost_split(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t n = (wide_t)(s.nodes - 1) * s.size, inner = inside(&s, s.m);

    (void)coll;
    return picoseconds(net->latency_ps + more(each(&s, traffic(&s, n * s.chunks, n * s.m)), wire(&s, n * s.m, s.size)) +
                       inner);
}

uint64_t dma_cluster_cost_transpose(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll,
                                    uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t others = (wide_t)(s.nodes - 1) * s.size * s.m, inner = inside(&s, (s.nodes - 1) * s.m);

    (void)coll;
    return picoseconds(net->latency_ps + more(each(&s, traffic(&s, s.nodes - 1, others)), wire(&s, others, s.size)) +
                       inner + inside(&s, s.m) + copied(&s, 3 * others));
}

uint64_t dma_cluster_cost_pairs(const dma_net_profile_t *net, const dma_node_map_t *l, dma_coll_t coll, uint64_t bytes)
{
    shape_t s = shape_of(net, l, bytes);
    wide_t turns = parts(s.nodes - 1, s.size), users = s.nodes - 1 < s.size ? s.nodes - 1 : s.size;
    wide_t rails = net->rails < users ? net->rails : users; /* the most that one carries is not of all ranks' turns */
    wide_t pair = (wide_t)s.size * s.size * s.m, others = (wide_t)(s.nodes - 1) * s.size * s.m;
    wide_t one = traffic(&s, 1, pair), busy = cores(&s, turns * one, (s.nodes - 1) * one);

    (void)coll;
    return picoseconds(net->latency_ps + more(busy, wire(&s, parts(s.nodes - 1, rails) * pair, 1)) +
                       2 * inside(&s, turns * s.size * s.m + s.m) + copied(&s, 5 * others + 2 * s.size * s.m));
}

extern const dma_cluster_variant_t dma_cluster_ring, dma_cluster_direct, dma_cluster_rails, dma_cluster_leader;
extern const dma_cluster_variant_t dma_cluster_split, dma_cluster_transpose, dma_cluster_pairs;

const dma_cluster_variant_t *const dma_cluster_variants[] = {
    &dma_cluster_ring,  &dma_cluster_direct,    &dma_cluster_rails, &dma_cluster_leader,
    &dma_cluster_split, &dma_cluster_transpose, &dma_cluster_pairs, NULL,
};
