/*
 * All-to-alls between nodes.
 *
 *     cluster_split      Every block goes straight to its rank, one chunk of each in turn, node after node: in turn k a node
 *                        sends to the one k behind it and hears from the one k before it, so no adapter is hit by all, and
 *                        nobody is more than some messages before what it has received: so nobody's adapter is asked
 *                        for more than it carries for long, and what comes unawaited needs little memory. Blocks of the
 *                        own node are an exchange inside it. In place, nodes x and y with x + y = k modulo their number
 *                        exchange in turn k.
 *     cluster_transpose  Small blocks: ranks give each other, inside the node, what the other is to carry, so that one
 *                        message per pair of a carrier and a rank holds the blocks of the whole node. The carrier of what
 *                        goes to a rank is the one of its index, or where our node has fewer ranks, of its index modulo
 *                        their number.
 *     cluster_pairs      Still smaller: one message for each pair of nodes, with another exchange where it has come. The
 *                        pairs of a node take turns among its ranks.
 *
 * The scratch of the last two, in the order in which it is filled; a node's number is its distance from ours:
 *
 *     GIVE   [carrier q] [node] [its rank j that q carries]                        from our send buffer
 *     TAKEN  [our rank i] [node that we carry] [its rank j]                        the exchange
 *     PACKED [node] [j] [i] (pairs: [node] [i] [j])                                the messages to send
 *     LANDED [node] [its rank i] (pairs: [node] [i] [our rank j])                  the messages received
 *     SORTED [our rank j] [own node, then those that we carry] [i]                 pairs: for the second exchange,
 *     HERE   [our rank q] [own node if we sorted it, those that q carries] [i]     and what it brings
 */
#include "plan/cluster.h"
#include "plan/cluster_cost.h"

/* ---- split ---- */

/* Blocks of the own node, as an exchange. */
static void exchange_own(dma_cluster_plan_t *plan)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_layout_t *l = req->layout;
    dma_cluster_op_t *op = dma_cluster_local(plan, DMA_CLUSTER_EXCHANGE);
    dma_cluster_part_t *parts = dma_cluster_parts(plan, op);

    op->from = dma_place_at(req->in_place ? DMA_CLUSTER_IN : DMA_CLUSTER_OUT, 0);
    op->to = dma_place_at(DMA_CLUSTER_IN, 0);
    for (int i = 0; i < dma_layout_size(l, l->node); i++) {
        int rank = dma_layout_rank(l, l->node, i);

        parts[i] = (dma_cluster_part_t){
            .from = dma_place_out(plan, rank).at,
            .to = dma_place_in(plan, rank).at,
            .give = dma_blocks_bytes(&req->send, (uint64_t)rank),
            .get = dma_blocks_bytes(&req->recv, (uint64_t)rank),
        };
    }
}

/* Whom our node sends to in turn k, and hears from; itself: nobody. In place it is the same node, so that what leaves a
 * place and what comes there meet in one turn. */
static int send_node(const dma_cluster_req_t *req, int k)
{
    return dma_layout_turn(req->layout, req->in_place ? -req->layout->node : req->layout->node, k);
}

static int receive_node(const dma_cluster_req_t *req, int k)
{
    return req->in_place ? send_node(req, k) : dma_layout_turn(req->layout, req->layout->node, -k);
}

static int node_turns(const dma_cluster_req_t *req)
{
    return req->in_place ? req->layout->nnodes : req->layout->nnodes - 1;
}

/* The rank of a node with `size` that ours has to do with in turn t of these: both find each other in the same turn. */
static int turns(const dma_layout_t *l, int size)
{
    int own = dma_layout_size(l, l->node);

    return own > size ? own : size;
}

static int mate(const dma_layout_t *l, int size, int t)
{
    int n = turns(l, size);

    return (t + n - l->index) % n; /* `size` or more: none */
}

/* In place the messages would overwrite what is still to be sent. */
static uint32_t save(dma_cluster_plan_t *plan)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_layout_t *l = req->layout;
    bool fresh = true;
    uint64_t at = 0;

    for (int k = 1; req->in_place && !req->relayed && k <= node_turns(req); k++) {
        int node = send_node(req, k);

        for (int j = 0; node != l->node && j < dma_layout_size(l, node); j++) {
            int rank = dma_layout_rank(l, node, j);
            uint64_t bytes = dma_blocks_bytes(&req->send, (uint64_t)rank);

            dma_cluster_copy(plan, fresh, dma_place_at(DMA_CLUSTER_TEMP, (int64_t)at), dma_place_out(plan, rank),
                             bytes);
            fresh = false;
            at += bytes;
        }
    }
    plan->temp_bytes = at;
    return plan->nops[DMA_LOCAL];
}

/* One chunk of a block; `step`: its number, on both sides. */
typedef struct piece {
    uint64_t skip, bytes;
} piece_t;

static piece_t piece_of(const dma_cluster_plan_t *plan, uint64_t bytes, uint32_t step)
{
    uint64_t chunk = dma_cluster_chunk(&plan->req, bytes), skip = (uint64_t)step * chunk;
    uint64_t left = bytes > skip ? bytes - skip : 0;

    return (piece_t){.skip = skip, .bytes = left < chunk ? left : chunk};
}

/* To the ranks of a node; `at`: of their blocks in scratch, where they have been saved. */
static uint64_t send_step(dma_cluster_plan_t *plan, int node, uint32_t step, uint32_t saved, uint32_t came, uint64_t at)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_layout_t *l = req->layout;
    int size = dma_layout_size(l, node);
    uint64_t all = 0;

    for (int j = 0; j < size; j++) {
        all += dma_blocks_bytes(&req->send, (uint64_t)dma_layout_rank(l, node, j));
    }
    for (int t = 0; t < turns(l, size); t++) {
        int j = mate(l, size, t), rank = j < size ? dma_layout_rank(l, node, j) : -1;
        piece_t piece = piece_of(plan, j < size ? dma_blocks_bytes(&req->send, (uint64_t)rank) : 0, step);
        dma_cluster_place_t from;
        dma_cluster_op_t *op;
        uint64_t before = 0;

        if (!piece.bytes) {
            continue;
        }
        from = dma_place_out(plan, rank);
        for (int i = 0; req->in_place && i < j; i++) {
            before += dma_blocks_bytes(&req->send, (uint64_t)dma_layout_rank(l, node, i));
        }
        if (req->in_place && !req->relayed) {
            from = dma_place_at(DMA_CLUSTER_TEMP, (int64_t)(at + before));
        }
        from.at += (int64_t)piece.skip;
        op = dma_cluster_send(plan, rank, step, from, piece.bytes);
        op->need[DMA_LOCAL] = saved;
        op->need[DMA_RECEIVED] = came;
    }
    return at + all;
}

/* `sent`: before the sends of this turn. */
static void receive_step(dma_cluster_plan_t *plan, int node, uint32_t step, uint32_t saved, uint32_t sent)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_layout_t *l = req->layout;
    int size = dma_layout_size(l, node);

    for (int t = 0; t < turns(l, size); t++) {
        int j = mate(l, size, t), rank = j < size ? dma_layout_rank(l, node, j) : -1;
        piece_t piece = piece_of(plan, j < size ? dma_blocks_bytes(&req->recv, (uint64_t)rank) : 0, step);
        dma_cluster_place_t to;
        dma_cluster_op_t *op;

        if (piece.bytes) {
            to = dma_place_in(plan, rank);
            to.at += (int64_t)piece.skip;
            op = dma_cluster_recv(plan, rank, step, to, piece.bytes);
            op->need[DMA_LOCAL] = saved;
            op->after = req->in_place && req->relayed ? ++sent : 0;
        }
    }
}

/* The largest block of ours, and the most messages of one: that may be a smaller one's. */
static uint64_t largest(const dma_cluster_req_t *req, uint64_t *pieces)
{
    const dma_blocks_t *sides[] = {&req->send, &req->recv};
    uint64_t most = 0;

    *pieces = 0;
    for (int side = 0; side < 2; side++) {
        for (int r = 0; r < req->layout->nranks; r++) {
            uint64_t bytes = dma_blocks_bytes(sides[side], (uint64_t)r), chunk = dma_cluster_chunk(req, bytes);

            most = bytes > most ? bytes : most;
            *pieces = (bytes + chunk - 1) / chunk > *pieces ? (bytes + chunk - 1) / chunk : *pieces;
        }
    }
    return most;
}

/* Turns that a node may be before what it has received: of so many messages of a rank, or as many bytes. */
static uint32_t turns_ahead(const dma_cluster_req_t *req, uint64_t most)
{
    uint64_t messages = DMA_CLUSTER_AHEAD * req->chunk / dma_cluster_chunk(req, most);
    uint32_t ahead = (uint32_t)((messages + (uint64_t)req->layout->most - 1) / (uint64_t)req->layout->most);

    return ahead < 2 ? 2 : ahead;
}

static void build_split(dma_cluster_plan_t *plan)
{
    const dma_cluster_req_t *req = &plan->req;
    uint64_t pieces, most = largest(req, &pieces);
    uint32_t saved = save(plan), ahead = turns_ahead(req, most), turn = 0;
    uint32_t came[DMA_CLUSTER_AHEAD] = {0};

    exchange_own(plan);
    for (uint32_t step = 0; step < pieces; step++) {
        uint64_t at = 0;

        for (int k = 1; k <= node_turns(req); k++) {
            uint32_t sent = plan->nops[DMA_SENT];

            if (send_node(req, k) == req->layout->node) {
                continue;
            }
            at = send_step(plan, send_node(req, k), step, saved, came[turn % ahead], at);
            receive_step(plan, receive_node(req, k), step, saved, sent);
            came[turn++ % ahead] = plan->nops[DMA_RECEIVED];
        }
    }
}

/* ---- transpose and pairs ---- */

/* Who carries what, from one node's side. */
typedef struct freight {
    dma_cluster_plan_t *plan;
    const dma_layout_t *l;
    uint64_t m; /* bytes of a block */
    int size;   /* ranks of our node */
    bool pairs;
    uint64_t give, taken, packed, landed, sorted, here, end; /* where parts of the scratch begin */
} freight_t;

static int size_at(const freight_t *f, int distance)
{
    return dma_layout_size(f->l, dma_layout_turn(f->l, f->l->node, distance));
}

/* Does rank `carrier` of a node of `size` ranks carry the blocks of rank j of the node at distance k? */
static bool carries(const freight_t *f, int size, int carrier, int k, int j)
{
    return (f->pairs ? (k - 1) % size : j % size) == carrier;
}

/* Blocks of one source that a carrier of our node carries, to all nodes. */
static uint64_t carried(const freight_t *f, int carrier)
{
    uint64_t n = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        for (int j = 0; j < size_at(f, k); j++) {
            n += carries(f, f->size, carrier, k, j);
        }
    }
    return n;
}

static dma_cluster_place_t scratch(uint64_t part, uint64_t bytes)
{
    return dma_place_at(DMA_CLUSTER_TEMP, (int64_t)(part + bytes));
}

/* Our send buffer to GIVE, by carriers; the first exchange. */
static void hand_over(freight_t *f)
{
    uint64_t mine = carried(f, f->l->index), at = 0;
    dma_cluster_part_t *parts;
    dma_cluster_op_t *op;
    bool fresh = true;

    for (int q = 0; q < f->size; q++) {
        for (int k = 1; k < f->l->nnodes; k++) {
            int node = dma_layout_turn(f->l, f->l->node, k);

            for (int j = 0; j < size_at(f, k); j++) {
                if (carries(f, f->size, q, k, j)) {
                    dma_cluster_copy(f->plan, fresh, scratch(f->give, at),
                                     dma_place_out(f->plan, dma_layout_rank(f->l, node, j)), f->m);
                    fresh = false;
                    at += f->m;
                }
            }
        }
    }
    op = dma_cluster_local(f->plan, DMA_CLUSTER_EXCHANGE);
    parts = dma_cluster_parts(f->plan, op);
    op->from = scratch(f->give, 0);
    op->to = scratch(f->taken, 0);
    at = 0;
    for (int i = 0; i < f->size; i++) {
        uint64_t give = carried(f, i) * f->m;

        parts[i] = (dma_cluster_part_t){.from = (int64_t)at, .give = give, .get = mine * f->m};
        parts[i].to = (int64_t)((uint64_t)i * mine * f->m);
        at += give;
    }
}

/* TAKEN to PACKED, and the messages out of it. */
static void send_freight(freight_t *f)
{
    uint64_t row = carried(f, f->l->index) * f->m, column = 0, at = 0;
    uint32_t packed;
    bool fresh = true;

    for (int k = 1; k < f->l->nnodes; k++) {
        int size = size_at(f, k);

        for (int j = 0; j < size; j++) {
            if (!carries(f, f->size, f->l->index, k, j)) {
                continue;
            }
            for (int i = 0; i < f->size; i++) {
                uint64_t to = f->pairs ? (uint64_t)(i * size + j) * f->m : (uint64_t)i * f->m;

                dma_cluster_copy(f->plan, fresh, scratch(f->packed, at + to),
                                 scratch(f->taken, (uint64_t)i * row + column), f->m);
                fresh = false;
            }
            column += f->m;
            at += f->pairs ? 0 : (uint64_t)f->size * f->m;
        }
        at += f->pairs && carries(f, f->size, f->l->index, k, 0) ? (uint64_t)(f->size * size) * f->m : 0;
    }
    packed = f->plan->nops[DMA_LOCAL];
    at = 0;
    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_layout_turn(f->l, f->l->node, k), size = size_at(f, k);

        for (int j = 0; j < (f->pairs ? 1 : size); j++) {
            uint64_t bytes = (uint64_t)f->size * (f->pairs ? (uint64_t)size : 1) * f->m;

            if (carries(f, f->size, f->l->index, k, j)) {
                int peer = dma_layout_rank(f->l, node, f->pairs ? (k - 1) % size : j);

                dma_cluster_send(f->plan, peer, 0, scratch(f->packed, at), bytes)->need[DMA_LOCAL] = packed;
                at += bytes;
            }
        }
    }
}

static void receive_freight(freight_t *f)
{
    uint64_t at = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_layout_turn(f->l, f->l->node, -k), size = dma_layout_size(f->l, node);
        uint64_t bytes = (uint64_t)size * (f->pairs ? (uint64_t)f->size : 1) * f->m;

        if (!f->pairs || (k - 1) % f->size == f->l->index) {
            int carrier = f->pairs ? (k - 1) % size : f->l->index % size;

            dma_cluster_recv(f->plan, dma_layout_rank(f->l, node, carrier), 0, scratch(f->landed, at), bytes);
            at += bytes;
        }
    }
}

static void land(freight_t *f)
{
    uint64_t at = 0;
    bool fresh = true;

    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_layout_turn(f->l, f->l->node, -k);

        for (int i = 0; i < dma_layout_size(f->l, node); i++) {
            dma_cluster_copy(f->plan, fresh, dma_place_in(f->plan, dma_layout_rank(f->l, node, i)),
                             scratch(f->landed, at), f->m)
                ->need[DMA_RECEIVED] = f->plan->nops[DMA_RECEIVED];
            fresh = false;
            at += f->m;
        }
    }
}

/* Ranks of all nodes whose messages come to rank q of ours. */
static uint64_t sources(const freight_t *f, int q)
{
    uint64_t n = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        n += (k - 1) % f->size == q ? (uint64_t)size_at(f, -k) : 0;
    }
    return n;
}

/* LANDED to SORTED; each rank's own block for rank j of its node comes first. */
static void sort(freight_t *f)
{
    uint64_t width = (1 + sources(f, f->l->index)) * f->m;
    bool fresh = true;

    for (int j = 0; j < f->size; j++) {
        dma_cluster_copy(f->plan, j == 0, scratch(f->sorted, (uint64_t)j * width),
                         dma_place_out(f->plan, dma_layout_rank(f->l, f->l->node, j)), f->m);
    }
    for (int j = 0; j < f->size; j++) {
        uint64_t to = (uint64_t)j * width + f->m, at = (uint64_t)j * f->m;

        for (int k = 1; k < f->l->nnodes; k++) {
            for (int i = 0; (k - 1) % f->size == f->l->index && i < size_at(f, -k); i++) {
                dma_cluster_copy(f->plan, fresh, scratch(f->sorted, to), scratch(f->landed, at), f->m)
                    ->need[DMA_RECEIVED] = f->plan->nops[DMA_RECEIVED];
                fresh = false;
                to += f->m;
                at += (uint64_t)f->size * f->m;
            }
        }
    }
}

/* The second exchange, and out of HERE into the receive buffer. */
static void hand_out(freight_t *f)
{
    uint64_t width = (1 + sources(f, f->l->index)) * f->m, at = 0;
    dma_cluster_op_t *op = dma_cluster_local(f->plan, DMA_CLUSTER_EXCHANGE);
    dma_cluster_part_t *parts = dma_cluster_parts(f->plan, op);
    bool fresh = true;

    op->from = scratch(f->sorted, 0);
    op->to = scratch(f->here, 0);
    op->need[DMA_RECEIVED] = f->plan->nops[DMA_RECEIVED];
    for (int q = 0; q < f->size; q++) {
        uint64_t get = (1 + sources(f, q)) * f->m;

        parts[q] = (dma_cluster_part_t){.from = (int64_t)((uint64_t)q * width), .give = width, .get = get};
        parts[q].to = (int64_t)at;
        at += get;
    }
    at = 0;
    for (int q = 0; q < f->size; q++) {
        dma_cluster_copy(f->plan, fresh, dma_place_in(f->plan, dma_layout_rank(f->l, f->l->node, q)),
                         scratch(f->here, at), f->m);
        fresh = false;
        at += f->m;
        for (int k = 1; k < f->l->nnodes; k++) {
            int node = dma_layout_turn(f->l, f->l->node, -k);

            for (int i = 0; (k - 1) % f->size == q && i < dma_layout_size(f->l, node); i++) {
                dma_cluster_copy(f->plan, false, dma_place_in(f->plan, dma_layout_rank(f->l, node, i)),
                                 scratch(f->here, at), f->m);
                at += f->m;
            }
        }
    }
}

static void build_freight(dma_cluster_plan_t *plan, bool pairs)
{
    const dma_layout_t *l = plan->req.layout;
    freight_t f = {
        .plan = plan, .l = l, .m = plan->req.recv.bytes, .size = dma_layout_size(l, l->node), .pairs = pairs};
    uint64_t others = (uint64_t)(l->nranks - f.size), out = carried(&f, l->index) * (uint64_t)f.size;
    uint64_t in = pairs ? sources(&f, l->index) * (uint64_t)f.size : others;

    f.taken = f.give + others * f.m;
    f.packed = f.taken + out * f.m;
    f.landed = f.packed + out * f.m;
    f.sorted = f.landed + in * f.m;
    f.here = f.sorted + (pairs ? in + (uint64_t)f.size : 0) * f.m;
    plan->temp_bytes = f.here + (pairs ? (uint64_t)l->nranks : 0) * f.m;
    hand_over(&f);
    send_freight(&f);
    receive_freight(&f);
    if (pairs) {
        sort(&f);
        hand_out(&f);
    } else {
        exchange_own(plan);
        land(&f);
    }
}

static void build_transpose(dma_cluster_plan_t *plan)
{
    build_freight(plan, false);
}

static void build_pairs(dma_cluster_plan_t *plan)
{
    build_freight(plan, true);
}

const dma_cluster_variant_t dma_cluster_split = {
    .name = "cluster_split",
    .help = "all-to-all: every block straight to its rank, node after node",
    .colls = 1u << DMA_ALLTOALL | 1u << DMA_ALLTOALLV,
    .build = build_split,
    .cost = dma_cluster_cost_split,
};

const dma_cluster_variant_t dma_cluster_transpose = {
    .name = "cluster_transpose",
    .help = "all-to-all: exchange inside the node first, then one message per node on every adapter",
    .colls = 1u << DMA_ALLTOALL,
    .build = build_transpose,
    .cost = dma_cluster_cost_transpose,
};

const dma_cluster_variant_t dma_cluster_pairs = {
    .name = "cluster_pairs",
    .help = "all-to-all: one message for each pair of nodes, exchanges inside both",
    .colls = 1u << DMA_ALLTOALL,
    .build = build_pairs,
    .cost = dma_cluster_cost_pairs,
};
