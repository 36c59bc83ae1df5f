/*
 * All-to-alls between nodes.
 *
 *   cluster_split      Every block goes directly to its rank, one chunk of each block per step, node after node. In turn
 *                      k a node sends to the node k after it and receives from the node k before it, so not all nodes
 *                      use the same adapter. A rank is at most some messages ahead of those it has received. So no
 *                      adapter gets more than it can carry for long, and unexpected messages need little memory. Blocks
 *                      of our own node are exchanged inside the node. In place, nodes x and y with x + y = k (modulo
 *                      their number) exchange in turn k.
 *   cluster_transpose  Small blocks. First, the ranks of a node give each other the blocks that the other is to carry. Then
 *                      one message per pair of a carrier and a destination rank contains the blocks of the whole node.
 *                      The carrier of the blocks for a rank is the rank of our node with the same index, or, if our
 *                      node has fewer ranks, with this index modulo their number.
 *   cluster_pairs      Even smaller blocks. One message per pair of nodes, and a second exchange inside the receiving
 *                      node. The ranks of a node take turns in sending these messages.
 *
 * The scratch of the last two, in the order in which it is filled. [node] is the distance from our node:
 *
 *   GIVE   [carrier q] [node] [its rank j that q carries]                        copied from our send buffer
 *   TAKEN  [our rank i] [node that we carry] [its rank j]                        received in the exchange
 *   PACKED [node] [j] [i] (pairs: [node] [i] [j])                                the messages to send
 *   LANDED [node] [its rank i] (pairs: [node] [i] [our rank j])                  the messages received
 *   SORTED [our rank j] [own node, then those that we carry] [i]                 pairs: given in the second exchange
 *   HERE   [our rank q] [own node if we sorted it, those that q carries] [i]     pairs: received in the second exchange
 */
#include <stdlib.h>

#include "plan/cluster/cluster.h"
#include "plan/cluster/cost.h"

/* ---- split ---- */

/* Exchanges the blocks of our own node. */
static void exchange_own(dma_cluster_plan_t *plan)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_node_map_t *l = req->node_map;
    dma_cluster_op_t *op = dma_cluster_local(plan, DMA_CLUSTER_EXCHANGE);
    dma_cluster_part_t *parts = dma_cluster_parts(plan, op);

    op->from = dma_cluster_addr(req->in_place ? DMA_CLUSTER_IN : DMA_CLUSTER_OUT, 0);
    op->to = dma_cluster_addr(DMA_CLUSTER_IN, 0);
    for (int i = 0; i < dma_node_map_size(l, l->node); i++) {
        int rank = dma_node_map_rank(l, l->node, i);

        parts[i] = (dma_cluster_part_t){
            .from = dma_cluster_send_block(plan, rank).at,
            .to = dma_cluster_recv_block(plan, rank).at,
            .give = dma_blocks_bytes(&req->send, (uint64_t)rank),
            .get = dma_blocks_bytes(&req->recv, (uint64_t)rank),
        };
    }
}

/* The nodes that our node sends to and receives from in turn k; our own node: none. In place they are the same node,
 * so that the block that leaves a place and the block that comes to it do so in the same turn. */
static int send_node(const dma_cluster_req_t *req, int k)
{
    return dma_node_map_shift(req->node_map, req->in_place ? -req->node_map->node : req->node_map->node, k);
}

static int receive_node(const dma_cluster_req_t *req, int k)
{
    return req->in_place ? send_node(req, k) : dma_node_map_shift(req->node_map, req->node_map->node, -k);
}

static int node_turns(const dma_cluster_req_t *req)
{
    return req->in_place ? req->node_map->nnodes : req->node_map->nnodes - 1;
}

/* The first partner of this rank in a node with `size` ranks. In one turn, a rank exchanges with the rank of the same
 * index, then with those after it, then with those before it. So both partners have each other at the same position
 * of the order. */
static int first_partner(const dma_node_map_t *l, int size)
{
    int own = dma_node_map_size(l, l->node), n = own > size ? own : size, first = (n - l->index) % n;

    return first < size ? first : 0;
}

/* In place, received messages would overwrite blocks that have not been sent: copies those to scratch. */
static uint32_t save_blocks(dma_cluster_plan_t *plan)
{
    const dma_cluster_req_t *req = &plan->req;
    const dma_node_map_t *l = req->node_map;
    bool fresh = true;
    uint64_t at = 0;

    for (int k = 1; req->in_place && !req->relayed && k <= node_turns(req); k++) {
        int node = send_node(req, k);

        for (int j = 0; node != l->node && j < dma_node_map_size(l, node); j++) {
            int rank = dma_node_map_rank(l, node, j);
            uint64_t bytes = dma_blocks_bytes(&req->send, (uint64_t)rank);

            dma_cluster_copy(plan, fresh, dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at),
                             dma_cluster_send_block(plan, rank), bytes);
            fresh = false;
            at += bytes;
        }
    }
    plan->temp_bytes = at;
    return plan->nops[DMA_LANE_LOCAL];
}

/* A block in transfer, with one message of `chunk` bytes per step. */
typedef struct block {
    int rank;
    uint32_t turn;            /* the turn of its node in each step */
    dma_cluster_addr_t place; /* of the remaining bytes */
    uint64_t left, chunk;
} pending_t;

/* The blocks of a lane in the order of their messages. Each step removes the blocks that are complete. So the time to
 * build a plan is proportional to the number of ranks and messages, however different the sizes are. */
typedef struct queue {
    pending_t *blocks;
    uint32_t n, next, kept; /* the step is at block `next` and has kept `kept` blocks for the next step */
} pending_queue_t;

typedef struct mark {
    uint32_t turn, received; /* number of receives up to the end of the turn */
} mark_t;

typedef struct split {
    dma_cluster_plan_t *plan;
    pending_queue_t queues[2]; /* SENT, RECEIVED */
    uint32_t turns;            /* of a step */
    uint32_t saved;
    uint32_t ahead, received_before; /* received_before: receives up to the end of the turn `ahead` turns back */
    mark_t marks[DMA_CLUSTER_AHEAD]; /* the turns after that one: a ring */
    uint32_t first, end;             /* of it */
} split_t;

/* Adds the blocks for the ranks of a node, or from them. `at`: their position in scratch, if they have been saved. */
static uint64_t add_node(split_t *s, dma_cluster_lane_t lane, int node, uint64_t at)
{
    const dma_cluster_req_t *req = &s->plan->req;
    const dma_node_map_t *l = req->node_map;
    const dma_blocks_t *side = lane == DMA_LANE_SEND ? &req->send : &req->recv;
    bool saved = lane == DMA_LANE_SEND && req->in_place && !req->relayed;
    int size = dma_node_map_size(l, node), first = first_partner(l, size);
    pending_t *blocks = s->queues[lane].blocks + s->queues[lane].n;

    for (int j = 0; j < size; j++) {
        int rank = dma_node_map_rank(l, node, j);
        uint64_t bytes = dma_blocks_bytes(side, (uint64_t)rank);
        dma_cluster_addr_t place =
            lane == DMA_LANE_SEND ? dma_cluster_send_block(s->plan, rank) : dma_cluster_recv_block(s->plan, rank);

        place = saved ? dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at) : place;
        blocks[j < first ? j + size - first : j - first] = (pending_t){
            .rank = rank,
            .turn = s->turns,
            .place = place,
            .left = bytes,
            .chunk = dma_cluster_chunk(req, bytes),
        };
        at += bytes;
    }
    s->queues[lane].n += (uint32_t)size;
    return at;
}

static void add_all(split_t *s)
{
    const dma_cluster_req_t *req = &s->plan->req;
    uint64_t at = 0;

    for (int k = 1; k <= node_turns(req); k++) {
        if (send_node(req, k) != req->node_map->node) {
            at = add_node(s, DMA_LANE_SEND, send_node(req, k), at);
            add_node(s, DMA_LANE_RECV, receive_node(req, k), 0);
            s->turns++;
        }
    }
}

/* Appends one message of every block of the turn. `sent`: sends before this turn. */
static void send_or_receive(split_t *s, dma_cluster_lane_t lane, uint32_t step, uint32_t turn, uint32_t sent)
{
    dma_cluster_plan_t *plan = s->plan;
    pending_queue_t *q = &s->queues[lane];

    for (; q->next < q->n && q->blocks[q->next].turn == turn; q->next++) {
        pending_t *b = &q->blocks[q->next];
        uint64_t bytes = b->left < b->chunk ? b->left : b->chunk;
        dma_cluster_op_t *op;

        if (!bytes) {
            continue;
        }
        if (lane == DMA_LANE_SEND) {
            op = dma_cluster_send(plan, b->rank, step, b->place, bytes);
            op->need[DMA_LANE_RECV] = s->received_before;
        } else {
            op = dma_cluster_recv(plan, b->rank, step, b->place, bytes);
            op->after = plan->req.in_place && plan->req.relayed ? ++sent : 0;
        }
        op->need[DMA_LANE_LOCAL] = s->saved;
        b->place.at += (int64_t)bytes;
        b->left -= bytes;
        if (b->left) {
            q->blocks[q->kept++] = *b;
        }
    }
}

/* Turns are counted through all steps, including those in which this rank neither sends nor receives. */
static void update_received_before(split_t *s, uint32_t turn)
{
    while (s->first != s->end && s->marks[s->first % DMA_CLUSTER_AHEAD].turn + s->ahead <= turn) {
        s->received_before = s->marks[s->first++ % DMA_CLUSTER_AHEAD].received;
    }
}

static bool begin_step(pending_queue_t *q, uint32_t step)
{
    q->n = step ? q->kept : q->n;
    q->next = q->kept = 0;
    return q->n;
}

/* Both lanes begin, and a step has all remaining blocks of both. */
static bool begin_lanes(split_t *s, uint32_t step)
{
    bool sends = begin_step(&s->queues[DMA_LANE_SEND], step), recvs = begin_step(&s->queues[DMA_LANE_RECV], step);

    return sends || recvs;
}

static uint32_t next_turn(const split_t *s, const pending_queue_t *q)
{
    return q->next < q->n ? q->blocks[q->next].turn : s->turns;
}

static void build_step(split_t *s, uint32_t step)
{
    for (;;) {
        uint32_t out = next_turn(s, &s->queues[DMA_LANE_SEND]), in = next_turn(s, &s->queues[DMA_LANE_RECV]);
        uint32_t turn = out < in ? out : in, sent = s->plan->nops[DMA_LANE_SEND];

        if (turn == s->turns) {
            return;
        }
        update_received_before(s, step * s->turns + turn);
        send_or_receive(s, DMA_LANE_SEND, step, turn, sent);
        send_or_receive(s, DMA_LANE_RECV, step, turn, sent);
        s->marks[s->end++ % DMA_CLUSTER_AHEAD] =
            (mark_t){.turn = step * s->turns + turn, .received = s->plan->nops[DMA_LANE_RECV]};
    }
}

static uint64_t largest(const dma_cluster_req_t *req)
{
    uint64_t most = 0;

    for (int r = 0; r < req->node_map->nranks; r++) {
        uint64_t out = dma_blocks_bytes(&req->send, (uint64_t)r), in = dma_blocks_bytes(&req->recv, (uint64_t)r);

        most = out > most ? out : most;
        most = in > most ? in : most;
    }
    return most;
}

/* The number of turns that a node may be ahead of those it has received: DMA_CLUSTER_AHEAD messages of a rank, or as
 * many bytes in larger messages, but at least 2 turns. */
static uint32_t turns_ahead(const dma_cluster_req_t *req, uint64_t most)
{
    uint64_t messages = DMA_CLUSTER_AHEAD * req->chunk / dma_cluster_chunk(req, most);
    uint32_t ahead = (uint32_t)((messages + (uint64_t)req->node_map->max_size - 1) / (uint64_t)req->node_map->max_size);

    return ahead < 2 ? 2 : ahead;
}

static void build_split(dma_cluster_plan_t *plan)
{
    size_t n = (size_t)plan->req.node_map->nranks;
    pending_t *blocks = malloc(2 * n * sizeof(*blocks));
    split_t s = {.plan = plan, .ahead = turns_ahead(&plan->req, largest(&plan->req))};
    uint32_t step = 0;

    if (!blocks) {
        plan->failed = true;
        return;
    }
    s.queues[DMA_LANE_SEND].blocks = blocks;
    s.queues[DMA_LANE_RECV].blocks = blocks + n;
    s.saved = save_blocks(plan);
    exchange_own(plan);
    add_all(&s);
    while (begin_lanes(&s, step)) {
        build_step(&s, step++);
    }
    free(blocks);
}

/* ---- transpose and pairs ---- */

/* The state of a builder in which ranks carry blocks of others. */
typedef struct transpose {
    dma_cluster_plan_t *plan;
    const dma_node_map_t *l;
    uint64_t m; /* bytes of a block */
    int size;   /* ranks of our node */
    bool pairs;
    uint64_t give, taken, packed, landed, sorted, here, end; /* where the parts of the scratch begin */
} transpose_t;

static int size_at(const transpose_t *f, int distance)
{
    return dma_node_map_size(f->l, dma_node_map_shift(f->l, f->l->node, distance));
}

/* Whether rank `carrier` of a node of `size` ranks carries the blocks for rank j of the node at distance k. */
static bool carries(const transpose_t *f, int size, int carrier, int k, int j)
{
    return (f->pairs ? (k - 1) % size : j % size) == carrier;
}

/* The number of blocks of one source rank that a carrier of our node carries, to all nodes. */
static uint64_t carried(const transpose_t *f, int carrier)
{
    uint64_t n = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        for (int j = 0; j < size_at(f, k); j++) {
            n += carries(f, f->size, carrier, k, j);
        }
    }
    return n;
}

static dma_cluster_addr_t scratch(uint64_t part, uint64_t bytes)
{
    return dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)(part + bytes));
}

/* Copies our send buffer to GIVE, sorted by carriers, and appends the first exchange. */
static void exchange_first(transpose_t *f)
{
    uint64_t mine = carried(f, f->l->index), at = 0;
    dma_cluster_part_t *parts;
    dma_cluster_op_t *op;
    bool fresh = true;

    for (int q = 0; q < f->size; q++) {
        for (int k = 1; k < f->l->nnodes; k++) {
            int node = dma_node_map_shift(f->l, f->l->node, k);

            for (int j = 0; j < size_at(f, k); j++) {
                if (carries(f, f->size, q, k, j)) {
                    dma_cluster_copy(f->plan, fresh, scratch(f->give, at),
                                     dma_cluster_send_block(f->plan, dma_node_map_rank(f->l, node, j)), f->m);
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

/* Copies TAKEN to PACKED, and sends the messages from there. */
static void send_packed(transpose_t *f)
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
    packed = f->plan->nops[DMA_LANE_LOCAL];
    at = 0;
    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_node_map_shift(f->l, f->l->node, k), size = size_at(f, k);

        for (int j = 0; j < (f->pairs ? 1 : size); j++) {
            uint64_t bytes = (uint64_t)f->size * (f->pairs ? (uint64_t)size : 1) * f->m;

            if (carries(f, f->size, f->l->index, k, j)) {
                int peer = dma_node_map_rank(f->l, node, f->pairs ? (k - 1) % size : j);

                dma_cluster_send(f->plan, peer, 0, scratch(f->packed, at), bytes)->need[DMA_LANE_LOCAL] = packed;
                at += bytes;
            }
        }
    }
}

static void receive_packed(transpose_t *f)
{
    uint64_t at = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_node_map_shift(f->l, f->l->node, -k), size = dma_node_map_size(f->l, node);
        uint64_t bytes = (uint64_t)size * (f->pairs ? (uint64_t)f->size : 1) * f->m;

        if (!f->pairs || (k - 1) % f->size == f->l->index) {
            int carrier = f->pairs ? (k - 1) % size : f->l->index % size;

            dma_cluster_recv(f->plan, dma_node_map_rank(f->l, node, carrier), 0, scratch(f->landed, at), bytes);
            at += bytes;
        }
    }
}

static void unpack(transpose_t *f)
{
    uint64_t at = 0;
    bool fresh = true;

    for (int k = 1; k < f->l->nnodes; k++) {
        int node = dma_node_map_shift(f->l, f->l->node, -k);

        for (int i = 0; i < dma_node_map_size(f->l, node); i++) {
            dma_cluster_copy(f->plan, fresh, dma_cluster_recv_block(f->plan, dma_node_map_rank(f->l, node, i)),
                             scratch(f->landed, at), f->m)
                ->need[DMA_LANE_RECV] = f->plan->nops[DMA_LANE_RECV];
            fresh = false;
            at += f->m;
        }
    }
}

/* The number of ranks of other nodes whose blocks rank q of our node receives. */
static uint64_t sources(const transpose_t *f, int q)
{
    uint64_t n = 0;

    for (int k = 1; k < f->l->nnodes; k++) {
        n += (k - 1) % f->size == q ? (uint64_t)size_at(f, -k) : 0;
    }
    return n;
}

/* Copies LANDED to SORTED; our own block for rank j of our node comes first. */
static void sort_received(transpose_t *f)
{
    uint64_t width = (1 + sources(f, f->l->index)) * f->m;
    bool fresh = true;

    for (int j = 0; j < f->size; j++) {
        dma_cluster_copy(f->plan, j == 0, scratch(f->sorted, (uint64_t)j * width),
                         dma_cluster_send_block(f->plan, dma_node_map_rank(f->l, f->l->node, j)), f->m);
    }
    for (int j = 0; j < f->size; j++) {
        uint64_t to = (uint64_t)j * width + f->m, at = (uint64_t)j * f->m;

        for (int k = 1; k < f->l->nnodes; k++) {
            for (int i = 0; (k - 1) % f->size == f->l->index && i < size_at(f, -k); i++) {
                dma_cluster_copy(f->plan, fresh, scratch(f->sorted, to), scratch(f->landed, at), f->m)
                    ->need[DMA_LANE_RECV] = f->plan->nops[DMA_LANE_RECV];
                fresh = false;
                to += f->m;
                at += (uint64_t)f->size * f->m;
            }
        }
    }
}

/* Appends the second exchange, and copies HERE to the receive buffer. */
static void exchange_second(transpose_t *f)
{
    uint64_t width = (1 + sources(f, f->l->index)) * f->m, at = 0;
    dma_cluster_op_t *op = dma_cluster_local(f->plan, DMA_CLUSTER_EXCHANGE);
    dma_cluster_part_t *parts = dma_cluster_parts(f->plan, op);
    bool fresh = true;

    op->from = scratch(f->sorted, 0);
    op->to = scratch(f->here, 0);
    op->need[DMA_LANE_RECV] = f->plan->nops[DMA_LANE_RECV];
    for (int q = 0; q < f->size; q++) {
        uint64_t get = (1 + sources(f, q)) * f->m;

        parts[q] = (dma_cluster_part_t){.from = (int64_t)((uint64_t)q * width), .give = width, .get = get};
        parts[q].to = (int64_t)at;
        at += get;
    }
    at = 0;
    for (int q = 0; q < f->size; q++) {
        dma_cluster_copy(f->plan, fresh, dma_cluster_recv_block(f->plan, dma_node_map_rank(f->l, f->l->node, q)),
                         scratch(f->here, at), f->m);
        fresh = false;
        at += f->m;
        for (int k = 1; k < f->l->nnodes; k++) {
            int node = dma_node_map_shift(f->l, f->l->node, -k);

            for (int i = 0; (k - 1) % f->size == q && i < dma_node_map_size(f->l, node); i++) {
                dma_cluster_copy(f->plan, false, dma_cluster_recv_block(f->plan, dma_node_map_rank(f->l, node, i)),
                                 scratch(f->here, at), f->m);
                at += f->m;
            }
        }
    }
}

static void build_by_carriers(dma_cluster_plan_t *plan, bool pairs)
{
    const dma_node_map_t *l = plan->req.node_map;
    transpose_t f = {
        .plan = plan, .l = l, .m = plan->req.recv.bytes, .size = dma_node_map_size(l, l->node), .pairs = pairs};
    uint64_t others = (uint64_t)(l->nranks - f.size), out = carried(&f, l->index) * (uint64_t)f.size;
    uint64_t in = pairs ? sources(&f, l->index) * (uint64_t)f.size : others;

    f.taken = f.give + others * f.m;
    f.packed = f.taken + out * f.m;
    f.landed = f.packed + out * f.m;
    f.sorted = f.landed + in * f.m;
    f.here = f.sorted + (pairs ? in + (uint64_t)f.size : 0) * f.m;
    plan->temp_bytes = f.here + (pairs ? (uint64_t)l->nranks : 0) * f.m;
    exchange_first(&f);
    send_packed(&f);
    receive_packed(&f);
    if (pairs) {
        sort_received(&f);
        exchange_second(&f);
    } else {
        exchange_own(plan);
        unpack(&f);
    }
}

static void build_transpose(dma_cluster_plan_t *plan)
{
    build_by_carriers(plan, false);
}

static void build_pairs(dma_cluster_plan_t *plan)
{
    build_by_carriers(plan, true);
}

const dma_cluster_variant_t dma_cluster_split = {
    .name = "cluster_split",
    .help = "all-to-all: every block straight to its rank, node after node",
    .serves = DMA_SENDS_EACH | DMA_SIZES_ANY,
    .build = build_split,
    .cost = dma_cluster_cost_split,
};

const dma_cluster_variant_t dma_cluster_transpose = {
    .name = "cluster_transpose",
    .help = "all-to-all: exchange inside the node first, then one message per node on every adapter",
    .serves = DMA_SENDS_EACH | DMA_SIZES_EQUAL,
    .build = build_transpose,
    .cost = dma_cluster_cost_transpose,
};

const dma_cluster_variant_t dma_cluster_pairs = {
    .name = "cluster_pairs",
    .help = "all-to-all: one message for each pair of nodes, exchanges inside both",
    .serves = DMA_SENDS_EACH | DMA_SIZES_EQUAL,
    .build = build_pairs,
    .cost = dma_cluster_cost_pairs,
};
