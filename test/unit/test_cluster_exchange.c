/*
 * All-to-alls of blocks that go directly to their ranks: the messages of the plan are compared, one by one, with the
 * rules in plan/cluster/alltoall.c. Also: what a plan costs to build if the sizes of blocks are very different.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libunit.h"
#include "plan/cluster/cluster.h"

#define MOST_NODES 7
#define MOST_SIZE  5
#define MOST_RANKS (MOST_NODES * MOST_SIZE)
#define MOST_TURNS 8192

static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = (random_state ? random_state : unit_seed()) * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

/* ---- message by message ---- */

typedef struct shape {
    dma_node_map_t node_map;
    uint64_t counts[2][MOST_RANKS];
    int64_t displs[2][MOST_RANKS];
    dma_cluster_req_t req;
} shape_t;

/* Ranks on any nodes, and blocks of several messages, of one message, or empty. */
static void draw_shape(shape_t *s)
{
    int nodes = 1 + (int)draw(MOST_NODES), n = 0, node_of[MOST_RANKS];
    uint32_t first[MOST_RANKS], most = draw(2) ? 3000 : 100, none = 1 + draw(8);

    for (int k = 0; k < nodes; k++) {
        for (int left = 1 + (int)draw(MOST_SIZE); left; left--) {
            node_of[n++] = k;
        }
    }
    for (int r = n - 1; r > 0; r--) {
        int other = (int)draw((uint32_t)r + 1), node = node_of[r];

        node_of[r] = node_of[other];
        node_of[other] = node;
    }
    for (int r = 0; r < n; r++) {
        first[r] = (uint32_t)r;
        for (int i = r; i >= 0; i--) {
            first[r] = node_of[i] == node_of[r] ? (uint32_t)i : first[r];
        }
    }
    ck_assert_int_eq(dma_node_map_create(&s->node_map, first, n, (int)draw((uint32_t)n)), DMA_OK);
    for (int side = 0; side < 2; side++) {
        int64_t at = 0;

        for (int r = 0; r < n; r++) {
            s->counts[side][r] = draw(none) == 0 ? draw(most) : draw(2) * 50;
            s->displs[side][r] = at;
            at += (int64_t)s->counts[side][r] + 3;
        }
    }
    s->req = (dma_cluster_req_t){.coll = DMA_ALLTOALLV, .in_place = draw(2), .node_map = &s->node_map, .chunk = 64};
    s->req.relayed = s->req.in_place && draw(2);
    s->req.recv = (dma_blocks_t){.counts = s->counts[0], .displs = s->displs[0]};
    s->req.send = s->req.in_place ? s->req.recv : (dma_blocks_t){.counts = s->counts[1], .displs = s->displs[1]};
}

typedef struct walk {
    const dma_cluster_plan_t *plan;
    uint32_t ahead, turn, seen[2]; /* messages */
    uint32_t received[MOST_TURNS]; /* up to the end of a turn */
} walk_t;

static uint32_t ahead_of(const dma_cluster_req_t *req)
{
    uint64_t largest = 0, most = (uint64_t)req->node_map->max_size, turns;

    for (int r = 0; r < req->node_map->nranks; r++) {
        largest = req->send.counts[r] > largest ? req->send.counts[r] : largest;
        largest = req->recv.counts[r] > largest ? req->recv.counts[r] : largest;
    }
    turns = (DMA_CLUSTER_AHEAD * req->chunk / dma_cluster_chunk(req, largest) + most - 1) / most;
    return turns < 2 ? 2 : (uint32_t)turns;
}

/* Checks the next message of the lane. In place, as many messages are sent as are received, in the same order. */
static void expect(walk_t *w, dma_cluster_lane_t lane, int rank, uint32_t step, dma_cluster_addr_t place,
                   uint64_t bytes)
{
    const dma_cluster_plan_t *plan = w->plan;
    const dma_cluster_op_t *op = &plan->ops[lane][w->seen[lane]];
    const dma_cluster_addr_t *at = lane == DMA_LANE_SEND ? &op->from : &op->to;

    ck_assert_uint_lt(w->seen[lane]++, plan->nops[lane]);
    ck_assert_int_eq(op->peer, rank);
    ck_assert_uint_eq(op->step, step);
    ck_assert_uint_eq(op->bytes, bytes);
    ck_assert_uint_eq(at->base, place.base);
    ck_assert_int_eq(at->at, place.at);
    ck_assert_uint_eq(op->need[DMA_LANE_SEND], 0);
    ck_assert_uint_eq(op->need[DMA_LANE_LOCAL],
                      plan->nops[DMA_LANE_LOCAL] - 1); /* all ranks except the pair have saved what is sent */
    ck_assert_uint_eq(op->need[DMA_LANE_RECV],
                      lane == DMA_LANE_SEND && w->turn >= w->ahead ? w->received[w->turn - w->ahead] : 0);
    ck_assert_uint_eq(op->after, lane == DMA_LANE_RECV && plan->req.relayed ? w->seen[lane] : 0);
}

/* The messages of a node in one turn of a lane. Returns whether a block has more messages. `saved`: its blocks are
 * in scratch. */
static bool expect_turn(walk_t *w, dma_cluster_lane_t lane, int node, uint32_t step, uint64_t saved)
{
    const dma_cluster_req_t *req = &w->plan->req;
    const dma_node_map_t *l = req->node_map;
    int own = dma_node_map_size(l, l->node), size = dma_node_map_size(l, node), n = own > size ? own : size;
    bool more = false;

    for (int t = 0; t < n; t++) {
        int j = (t + n - l->index) % n, rank = j < size ? dma_node_map_rank(l, node, j) : -1;
        uint64_t bytes = j < size ? (lane == DMA_LANE_SEND ? &req->send : &req->recv)->counts[rank] : 0;
        uint64_t chunk = dma_cluster_chunk(req, bytes), skip = step * chunk, at = saved;
        dma_cluster_addr_t place;

        if (bytes <= skip) {
            continue;
        }
        place = lane == DMA_LANE_SEND ? dma_cluster_send_block(w->plan, rank) : dma_cluster_recv_block(w->plan, rank);
        for (int i = 0; i < j; i++) {
            at += req->send.counts[dma_node_map_rank(l, node, i)];
        }
        place = lane == DMA_LANE_SEND && req->in_place && !req->relayed
                    ? dma_cluster_addr(DMA_CLUSTER_TEMP, (int64_t)at)
                    : place;
        place.at += (int64_t)skip;
        expect(w, lane, rank, step, place, bytes - skip < chunk ? bytes - skip : chunk);
        more = more || bytes - skip > chunk;
    }
    return more;
}

static void expect_plan(walk_t *w)
{
    const dma_cluster_req_t *req = &w->plan->req;
    const dma_node_map_t *l = req->node_map;
    bool more = true;

    for (uint32_t step = 0; more; step++) {
        uint64_t saved = 0;

        more = false;
        for (int k = 1; k < l->nnodes + req->in_place; k++) {
            int to = dma_node_map_shift(l, req->in_place ? -l->node : l->node, k);
            int from = req->in_place ? to : dma_node_map_shift(l, l->node, -k);

            if (to == l->node) {
                continue;
            }
            ck_assert_uint_lt(w->turn, MOST_TURNS);
            more = expect_turn(w, DMA_LANE_SEND, to, step, saved) | more;
            more = expect_turn(w, DMA_LANE_RECV, from, step, 0) | more;
            for (int j = 0; j < dma_node_map_size(l, to); j++) {
                saved += req->send.counts[dma_node_map_rank(l, to, j)];
            }
            w->received[w->turn++] = w->seen[DMA_LANE_RECV];
        }
    }
    ck_assert_uint_eq(w->seen[DMA_LANE_SEND], w->plan->nops[DMA_LANE_SEND]);
    ck_assert_uint_eq(w->seen[DMA_LANE_RECV], w->plan->nops[DMA_LANE_RECV]);
}

START_TEST(message_by_message)
{
    static shape_t shape;
    static walk_t walk;

    for (int i = 0; i < 500; i++) {
        dma_cluster_plan_t *plan;

        draw_shape(&shape);
        ck_assert_int_eq(dma_cluster_build(&shape.req, dma_cluster_variant_find("cluster_split"), &plan), DMA_OK);
        memset(&walk, 0, sizeof(walk));
        walk.plan = plan;
        walk.ahead = ahead_of(&shape.req);
        expect_plan(&walk);
        dma_cluster_free(plan);
        dma_node_map_free(&shape.node_map);
    }
}
END_TEST

/* ---- what building costs ---- */

#define LARGE 512 /* ranks, 8 per node */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds per message: the least of several times. */
static double cost(const dma_node_map_t *node_map, uint64_t small, uint64_t one)
{
    static uint64_t counts[LARGE];
    static int64_t displs[LARGE];
    dma_cluster_req_t req = {.coll = DMA_ALLTOALLV, .node_map = node_map, .chunk = 4096};
    double least = 1;

    for (int r = 0; r < LARGE; r++) {
        counts[r] = r == LARGE / 2 ? one : small;
    }
    req.send = req.recv = (dma_blocks_t){.counts = counts, .displs = displs};
    for (int i = 0; i < 9; i++) {
        double begin = now(), took;
        dma_cluster_plan_t *plan;

        ck_assert_int_eq(dma_cluster_build(&req, dma_cluster_variant_find("cluster_split"), &plan), DMA_OK);
        took = (now() - begin) / plan->nops[DMA_LANE_SEND];
        least = took < least ? took : least;
        dma_cluster_free(plan);
    }
    return least;
}

/* One block has 256 messages, and 511 blocks have one message each. If the builder asked each block in each turn,
 * this would take 30 times as long. */
START_TEST(one_large_block)
{
    uint32_t first[LARGE];
    dma_node_map_t node_map;
    double even, uneven;

    for (uint32_t r = 0; r < LARGE; r++) {
        first[r] = r / 8 * 8;
    }
    ck_assert_int_eq(dma_node_map_create(&node_map, first, LARGE, 0), DMA_OK);
    even = cost(&node_map, 4096, 4096);
    uneven = cost(&node_map, 4096, 4096 * DMA_CLUSTER_PIECES);
    ck_assert_msg(uneven < 5 * even, "%.0f ns per message, %.0f where all have one", uneven * 1e9, even * 1e9);
    dma_node_map_free(&node_map);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster_exchange");

    unit_test(suite, message_by_message, 20);
    unit_test(suite, one_large_block, 10);
    return unit_main(suite);
}
