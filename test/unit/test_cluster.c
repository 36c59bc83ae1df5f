/*
 * Cluster plans: the interpreter of clusters runs every algorithm between nodes over layouts, sizes, in place or not,
 * and seeds. Also node maps and the profile of the network.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libcluster.h"
#include "libunit.h"

#define MOST_RANKS 80
#define MOST_NODES 9

typedef enum order { IN_ORDER, IN_TURN, SHUFFLED, ORDERS } order_t;

typedef struct scene {
    int nranks;
    uint32_t first[MOST_RANKS];
    dma_coll_t coll;
    bool in_place[MOST_RANKS], relayed[MOST_RANKS], mixed_memory[MOST_RANKS];
    uint64_t bytes[MOST_RANKS * MOST_RANKS];
    dma_node_map_t layouts[MOST_RANKS];
    uint64_t counts[2][MOST_RANKS][MOST_RANKS];
    int64_t displs[2][MOST_RANKS][MOST_RANKS];
    dma_cluster_plan_t *plans[MOST_RANKS];
    uint64_t chunk;
} scene_t;

static scene_t scene;
static uint64_t random_state;

static uint32_t draw(uint32_t below)
{
    random_state = (random_state ? random_state : unit_seed()) * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random_state >> 33) % below);
}

/* Ranks on nodes of these sizes. */
static void place(scene_t *s, const int *sizes, int nodes, order_t order)
{
    int left[MOST_NODES], node_of[MOST_RANKS], n = 0;

    memcpy(left, sizes, (size_t)nodes * sizeof(*left));
    for (int k = 0; k < nodes; k++) {
        n += sizes[k];
    }
    s->nranks = n;
    for (int r = 0, k = 0; r < n; r++) {
        if (order == SHUFFLED) {
            k = (int)draw((uint32_t)nodes);
        }
        while (!left[k]) {
            k = (k + 1) % nodes;
        }
        left[k]--;
        node_of[r] = k;
        k = order == IN_TURN ? (k + 1) % nodes : k;
    }
    for (int r = 0; r < n; r++) {
        for (int i = n - 1; i >= 0; i--) {
            s->first[r] = node_of[i] == node_of[r] ? (uint32_t)i : s->first[r];
        }
    }
    for (int r = 0; r < n; r++) {
        ck_assert_int_eq(dma_node_map_create(&s->layouts[r], s->first, n, r), DMA_OK);
    }
}

static void leave(scene_t *s)
{
    for (int r = 0; r < s->nranks; r++) {
        dma_node_map_free(&s->layouts[r]);
    }
}

static void set_bytes(scene_t *s, uint64_t bytes, bool in_place)
{
    int n = s->nranks;
    bool uneven = dma_coll_sizes(s->coll) != DMA_SIZES_EQUAL;

    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            uint64_t *b = &s->bytes[i * n + j];

            *b = !uneven ? bytes : draw(5) == 0 ? 0 : draw((uint32_t)bytes + 1);
            if (dma_coll_gathers(s->coll) && j) {
                *b = s->bytes[i * n];
            } else if (in_place && j < i && !dma_coll_gathers(s->coll)) {
                *b = s->bytes[j * n + i];
            }
        }
    }
    for (int r = 0; r < n; r++) {
        s->in_place[r] = in_place && (!dma_coll_gathers(s->coll) || draw(3) > 0);
        s->relayed[r] = draw(2);
        s->mixed_memory[r] = draw(2);
    }
}

/* The sides of a rank. In v-operations the blocks are in reverse order, with holes between them. */
static void set_sides(scene_t *s, int rank, dma_cluster_req_t *req)
{
    int n = s->nranks;
    bool uneven = dma_coll_sizes(s->coll) != DMA_SIZES_EQUAL;
    uint64_t recv = 3, send = 5;

    if (!uneven) {
        req->send.bytes = req->recv.bytes = s->bytes[0];
        return;
    }
    for (int p = n - 1; p >= 0; p--) {
        s->counts[0][rank][p] = s->bytes[p * n + rank];
        s->displs[0][rank][p] = (int64_t)recv;
        recv += s->bytes[p * n + rank] + 7;
        s->counts[1][rank][p] = s->bytes[rank * n + p];
        s->displs[1][rank][p] = (int64_t)send;
        send += s->bytes[rank * n + p] + 1;
    }
    req->recv = (dma_blocks_t){.counts = s->counts[0][rank], .displs = s->displs[0][rank]};
    req->send = (dma_blocks_t){.counts = s->counts[1][rank], .displs = s->displs[1][rank]};
    if (dma_coll_gathers(s->coll)) {
        req->send = (dma_blocks_t){.bytes = s->bytes[rank * n]};
    } else if (s->in_place[rank]) {
        req->send = req->recv;
    }
}

static bool build(scene_t *s, int variant)
{
    for (int r = 0; r < s->nranks; r++) {
        dma_cluster_req_t req = {.coll = s->coll,
                                 .in_place = s->in_place[r],
                                 .relayed = s->relayed[r],
                                 .mixed_memory = s->mixed_memory[r],
                                 .node_map = &s->layouts[r],
                                 .chunk = s->chunk};
        const dma_cluster_variant_t *v = dma_cluster_variants[variant];

        set_sides(s, r, &req);
        if (v->unfit && v->unfit(&req)) {
            ck_assert_int_eq(r, 0);
            return false;
        }
        ck_assert_int_eq(dma_cluster_build(&req, variant, &s->plans[r]), DMA_OK);
    }
    return true;
}

static void drop(scene_t *s)
{
    for (int r = 0; r < s->nranks; r++) {
        dma_cluster_free(s->plans[r]);
    }
}

static bool interpret(scene_t *s, uint64_t seed, cluster_report_t *report)
{
    cluster_job_t job = {
        .coll = s->coll, .nranks = s->nranks, .plans = s->plans, .bytes = s->bytes, .seed = seed, .narrow = seed % 2};

    return cluster_run(&job, report);
}

static const int shapes[][MOST_NODES + 1] = {
    {2, 1, 1},
    {2, 2, 2},
    {2, 3, 1},
    {3, 1, 1, 1},
    {3, 2, 2, 2},
    {3, 1, 2, 4},
    {4, 2, 2, 2, 2},
    {4, 3, 1, 2, 2},
    {5, 2, 2, 2, 2, 2},
    {5, 3, 3, 3, 3, 3},
    {7, 1, 1, 1, 1, 1, 1, 1},
    {6, 4, 1, 4, 1, 4, 1},
    {3, 8, 8, 8},
    {1, 4},
    {2, 1, 8},
};
#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

static void try_all(scene_t *s, int variant, uint64_t bytes, int seeds)
{
    for (int in_place = 0; in_place < 2; in_place++) {
        set_bytes(s, bytes, in_place);
        if (!build(s, variant)) {
            return;
        }
        for (int k = 0; k < seeds; k++) {
            uint64_t seed = unit_seed() + draw(1000000);
            cluster_report_t report;

            ck_assert_msg(interpret(s, seed, &report),
                          "%s, operation %d, %d ranks on %d nodes, %" PRIu64 " bytes, in place %d, seed %" PRIu64
                          ": %s",
                          dma_cluster_variants[variant]->name, s->coll, s->nranks, s->layouts[0].nnodes, bytes,
                          in_place, seed, report.text);
        }
        drop(s);
    }
}

/* Every algorithm on every shape, _i. */
START_TEST(every_algorithm)
{
    static const uint64_t sizes[] = {0, 1, 64, 65, 1000, 1500}; /* the last: more messages than may be under way */

    for (order_t order = 0; order < ORDERS; order++) {
        place(&scene, shapes[_i] + 1, shapes[_i][0], order);
        for (int v = 0; dma_cluster_variants[v]; v++) {
            for (scene.coll = 0; scene.coll < DMA_COLL_COUNT; scene.coll++) {
                for (size_t b = 0; b < sizeof(sizes) / sizeof(*sizes); b++) {
                    scene.chunk = b & 1 ? 64 : 300;
                    if (dma_coll_is_served(scene.coll, dma_cluster_variants[v]->serves) &&
                        (b < 5 || scene.nranks <= 16)) {
                        try_all(&scene, v, sizes[b], scene.nranks > 16 ? 1 : 3);
                    }
                }
            }
        }
        leave(&scene);
    }
}
END_TEST

/* Nine nodes of eight ranks, and nodes of any size. */
START_TEST(large_clusters)
{
    int sizes[MOST_NODES];

    for (int order = 0; order < ORDERS; order++) {
        for (int k = 0; k < MOST_NODES; k++) {
            sizes[k] = order == IN_ORDER ? 8 : 1 + (int)draw(8);
        }
        place(&scene, sizes, MOST_NODES, (order_t)order);
        for (int v = 0; dma_cluster_variants[v]; v++) {
            for (scene.coll = 0; scene.coll < DMA_COLL_COUNT; scene.coll++) {
                scene.chunk = 64;
                if (dma_coll_is_served(scene.coll, dma_cluster_variants[v]->serves)) {
                    try_all(&scene, v, 100, 1);
                }
            }
        }
        leave(&scene);
    }
}
END_TEST

/* Messages grow with the blocks, so that plans do not grow, and they still match: blocks of different ranks have
 * different sizes. */
START_TEST(large_calls)
{
    static const int sizes[] = {2, 1, 2};

    place(&scene, sizes, 3, IN_TURN);
    for (int v = 0; dma_cluster_variants[v]; v++) {
        for (scene.coll = 0; scene.coll < DMA_COLL_COUNT; scene.coll++) {
            if (!dma_coll_is_served(scene.coll, dma_cluster_variants[v]->serves)) {
                continue;
            }
            scene.chunk = 1;
            try_all(&scene, v, 3 * DMA_CLUSTER_PIECES + 1, 1);
            set_bytes(&scene, UINT64_C(1) << 31, false);
            if (build(&scene, v)) {
                for (int r = 0; r < scene.nranks; r++) {
                    for (int lane = 0; lane < DMA_LANES; lane++) {
                        ck_assert_uint_le(scene.plans[r]->nops[lane], 2 * 5 * DMA_CLUSTER_PIECES);
                    }
                }
                drop(&scene);
            }
        }
    }
    leave(&scene);
}
END_TEST

/* A chunk size near 2^64 makes one message per block. */
START_TEST(chunk_size_near_2_64)
{
    static const int sizes[] = {2, 2};

    place(&scene, sizes, 2, IN_ORDER);
    for (int v = 0; dma_cluster_variants[v]; v++) {
        if (dma_coll_is_served(DMA_ALLGATHER, dma_cluster_variants[v]->serves)) {
            scene.coll = DMA_ALLGATHER;
            scene.chunk = UINT64_MAX - 615;
            try_all(&scene, v, 1000, 1);
        }
    }
    leave(&scene);
}
END_TEST

/* The interpreter finds each deliberate mistake, with some seed. */
static cluster_error_t broken(scene_t *s)
{
    cluster_report_t report = {.error = CLUSTER_OK};

    for (uint64_t seed = 1; seed < 60 && report.error == CLUSTER_OK; seed++) {
        interpret(s, seed, &report);
    }
    drop(s);
    return report.error;
}

static void scene_of(dma_coll_t coll, const char *variant, bool in_place, uint64_t bytes)
{
    scene.coll = coll;
    scene.chunk = 64;
    set_bytes(&scene, bytes, in_place);
    memset(scene.relayed, 0, sizeof(scene.relayed));
    ck_assert(build(&scene, dma_cluster_variant_find(variant)));
}

START_TEST(interpreter_finds_errors)
{
    static const int sizes[] = {2, 2, 2, 2};
    dma_cluster_plan_t **p = scene.plans;
    cluster_error_t e;

    place(&scene, sizes, 4, IN_TURN);
    scene_of(DMA_ALLGATHER, "cluster_ring", false, 200);
    for (uint32_t i = 0; i < p[3]->nops[DMA_LANE_SEND]; i++) {
        p[3]->ops[DMA_LANE_SEND][i].need[DMA_LANE_RECV] = 0; /* forwards bytes that have not arrived */
    }
    e = broken(&scene);
    ck_assert(e == CLUSTER_RACE || e == CLUSTER_DATA);

    scene_of(DMA_ALLGATHER, "cluster_leader", false, 20);
    for (uint32_t i = 0; i < p[0]->nops[DMA_LANE_LOCAL]; i++) {
        p[0]->ops[DMA_LANE_LOCAL][i].need[DMA_LANE_RECV] = 0; /* distributes bytes that have not arrived */
    }
    e = broken(&scene);
    ck_assert(e == CLUSTER_RACE || e == CLUSTER_DATA);

    scene_of(DMA_ALLTOALL, "cluster_split", true, 20);
    for (uint32_t i = 0; i < p[1]->nops[DMA_LANE_RECV]; i++) {
        p[1]->ops[DMA_LANE_RECV][i].need[DMA_LANE_LOCAL] = 0; /* in place: overwrites bytes that have not been saved */
    }
    e = broken(&scene);
    ck_assert(e == CLUSTER_RACE || e == CLUSTER_DATA);

    scene.coll = DMA_ALLTOALL;
    set_bytes(&scene, 20, true);
    memset(scene.relayed, 1, sizeof(scene.relayed));
    ck_assert(build(&scene, dma_cluster_variant_find("cluster_split")));
    ck_assert_uint_eq(p[1]->temp_bytes, 0);
    for (uint32_t i = 0; i < p[1]->nops[DMA_LANE_RECV]; i++) {
        p[1]->ops[DMA_LANE_RECV][i].after = 0; /* relayed in place: overwrites bytes that have not been copied away */
    }
    e = broken(&scene);
    ck_assert(e == CLUSTER_RACE || e == CLUSTER_DATA);

    scene_of(DMA_ALLTOALL, "cluster_split", true, 20);
    for (int r = 1; r < 8; r += 4) { /* one node uses an order of its own: with one message at a time, the job hangs */
        dma_cluster_op_t *ops = p[r]->ops[DMA_LANE_SEND], first = ops[0];

        ops[0] = ops[1];
        ops[1] = first;
    }
    ck_assert_int_eq(broken(&scene), CLUSTER_DEADLOCK);

    scene_of(DMA_ALLTOALL, "cluster_pairs", false, 20);
    p[2]->ops[DMA_LANE_SEND][0].bytes -= 1;
    ck_assert_int_eq(broken(&scene), CLUSTER_NET);

    scene_of(DMA_ALLTOALL, "cluster_transpose", false, 20);
    p[2]->temp_bytes -= 20;
    ck_assert_int_eq(broken(&scene), CLUSTER_BOUNDS);

    scene_of(DMA_ALLGATHER, "cluster_ring", false, 200);
    p[4]->nops[DMA_LANE_SEND]--;
    ck_assert_int_eq(broken(&scene), CLUSTER_DEADLOCK);

    scene_of(DMA_ALLGATHER, "cluster_direct", false, 200);
    for (uint32_t i = 0; i < p[4]->nops[DMA_LANE_LOCAL]; i++) {
        p[4]->ops[DMA_LANE_LOCAL][i].range.max_bytes = 63;
    }
    ck_assert_int_eq(broken(&scene), CLUSTER_LOCAL);
    leave(&scene);
}
END_TEST

START_TEST(layouts)
{
    static const uint32_t first[] = {0, 1, 0, 3, 1, 0}, none[] = {0, 2, 2}, later[] = {0, 0, 1};
    dma_node_map_t l;

    ck_assert_int_eq(dma_node_map_create(&l, first, 6, 4), DMA_OK);
    ck_assert_int_eq(l.nnodes, 3);
    ck_assert_int_eq(l.node, 1);
    ck_assert_int_eq(l.index, 1);
    ck_assert_int_eq(l.max_size, 3);
    ck_assert_int_eq(l.min_size, 1);
    ck_assert_int_eq(dma_node_map_rank(&l, 0, 2), 5);
    ck_assert_int_eq(dma_node_map_rank(&l, 2, 0), 3);
    ck_assert_int_eq(dma_node_map_shift(&l, 0, -1), 2);
    dma_node_map_free(&l);
    ck_assert_int_eq(dma_node_map_create(&l, none, 3, 0), DMA_ERR_ARG);  /* after its own block */
    ck_assert_int_eq(dma_node_map_create(&l, later, 3, 0), DMA_ERR_ARG); /* of a rank that is not the first itself */
}
END_TEST

/* Pipelines wait for at most so many latencies of messages and local collectives. */
START_TEST(chunks)
{
    dma_net_profile_t net = dma_net_profile_default(), tcp = dma_net_profile_tcp();

    ck_assert_uint_eq(dma_net_profile_chunk(&net, false), 512 << 10);
    net.local_ps = 0;
    ck_assert_uint_eq(dma_net_profile_chunk(&net, false), 256 << 10);
    ck_assert_uint_eq(dma_net_profile_chunk(&tcp, true), 16 << 10);
    net.nic_mbps = 119;
    ck_assert_uint_eq(dma_net_profile_chunk(&net, false), 16 << 10);
    net.nic_mbps = 1000000;
    ck_assert_uint_eq(dma_net_profile_chunk(&net, false), 1 << 20);
}
END_TEST

static void print_profile(const dma_net_profile_t *p, char *text, size_t size)
{
    FILE *out = fmemopen(text, size, "w");

    ck_assert_ptr_nonnull(out);
#define PRINT(name, value, help) fprintf(out, "%s %" PRIu64 " # %s\n", #name, p->name, help);
    DMA_NET_PROFILE_FIELDS(PRINT)
#undef PRINT
    fclose(out);
}

START_TEST(profiles)
{
    dma_net_profile_t a = dma_net_profile_default(), b = {0};
    char text[4096] = "", error[128];

    a.latency_ps = 36000000;
    print_profile(&a, text, sizeof(text));
    ck_assert_int_eq(dma_net_profile_load(unit_file(text), &b, error, sizeof(error)), DMA_OK);
    ck_assert(!memcmp(&a, &b, sizeof(a)));
    a.rails = 0;
    print_profile(&a, text, sizeof(text));
    ck_assert_int_eq(dma_net_profile_load(unit_file(text), &b, error, sizeof(error)), DMA_ERR_ARG);
    ck_assert_int_eq(b.rails, 8); /* untouched */
}
END_TEST

/* On the built-in network: small blocks go in few messages, large ones directly, and both are chosen by predicted costs. */
START_TEST(choices)
{
    static const int sizes[] = {8, 8, 8, 8, 8, 8, 8, 8, 8};
    dma_net_profile_t net = dma_net_profile_default();
    dma_cluster_req_t req = {.coll = DMA_ALLTOALL};
    const char *reason;
    int small, large;

    place(&scene, sizes, 9, IN_ORDER);
    req.node_map = &scene.layouts[0];
    small = dma_cluster_choose(&net, &req, 8, -1, &reason);
    large = dma_cluster_choose(&net, &req, 1 << 20, -1, &reason);
    ck_assert_str_ne(dma_cluster_variants[small]->name, "cluster_split");
    ck_assert_str_eq(dma_cluster_variants[large]->name, "cluster_split");
    ck_assert_int_eq(dma_cluster_choose(&net, &req, 8, large, &reason), large);
    req.coll = DMA_ALLTOALLV;
    ck_assert_int_eq(dma_cluster_choose(&net, &req, 8, small, &reason), large); /* the forced variant does not fit */
    ck_assert_str_eq(reason, "it does not do this operation");
    req.coll = DMA_ALLGATHER;
    small = dma_cluster_choose(&net, &req, 8, -1, &reason);
    large = dma_cluster_choose(&net, &req, 1 << 24, -1, &reason);
    ck_assert(dma_cluster_variants[small]->cost(&net, req.node_map, req.coll, 8) <
              dma_cluster_variants[large]->cost(&net, req.node_map, req.coll, 8));
    ck_assert_str_eq(dma_cluster_variants[large]->name, "cluster_ring");
    for (int v = 0; dma_cluster_variants[v]; v++) { /* no sum wraps */
        net.latency_ps = UINT64_C(1) << 40;
        ck_assert_uint_eq(dma_cluster_variants[v]->cost(&net, req.node_map, req.coll, UINT64_MAX), UINT64_MAX - 1);
    }
    leave(&scene);
}
END_TEST

/* On the testbed, the predictions are within a quarter of the measurements (docs/dev/measurements/hosts.md). With
 * two processors for all ranks, small blocks go in few messages. */
START_TEST(testbed)
{
    static const struct {
        dma_coll_t coll;
        uint64_t bytes;
        double measured; /* microseconds, in a row */
    } rows[] = {{DMA_ALLGATHER, 65536, 3290},
                {DMA_ALLGATHER, 262144, 13241},
                {DMA_ALLTOALL, 65536, 6600},
                {DMA_ALLTOALL, 262144, 26491}};
    static const int sizes[] = {2, 2, 2, 2};
    dma_cluster_req_t req = {.coll = DMA_ALLGATHER};
    dma_net_profile_t net;
    const char *reason;
    char error[128];
    int v;

    ck_assert_int_eq(dma_net_profile_load(cluster_bed_profile(), &net, error, sizeof(error)), DMA_OK);
    place(&scene, sizes, 4, IN_ORDER);
    req.node_map = &scene.layouts[0];
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        double cost;

        req.coll = rows[i].coll;
        v = dma_cluster_choose(&net, &req, rows[i].bytes, -1, &reason);
        cost = 1e-6 * (double)dma_cluster_variants[v]->cost(&net, req.node_map, req.coll, rows[i].bytes);
        ck_assert_double_le(cost, 1.25 * rows[i].measured);
        ck_assert_double_ge(cost, 0.75 * rows[i].measured);
    }
    /* copies keep the cores busy long before a link is full: 382 microseconds for cluster_split */
    v = dma_cluster_variant_find("cluster_split");
    ck_assert_double_ge(1e-6 * (double)dma_cluster_variants[v]->cost(&net, req.node_map, DMA_ALLTOALL, 4096),
                        0.75 * 382);
    ck_assert_str_eq(dma_cluster_variants[dma_cluster_choose(&net, &req, 4096, -1, &reason)]->name, "cluster_pairs");
    ck_assert_str_eq(dma_cluster_variants[dma_cluster_choose(&net, &req, 8192, -1, &reason)]->name, "cluster_split");
    req.coll = DMA_ALLGATHER;
    ck_assert_str_eq(dma_cluster_variants[dma_cluster_choose(&net, &req, 8, -1, &reason)]->name, "cluster_leader");
    ck_assert_str_eq(dma_cluster_variants[dma_cluster_choose(&net, &req, 4096, -1, &reason)]->name, "cluster_rails");
    net.core_ranks = 1;
    ck_assert_str_eq(dma_cluster_variants[dma_cluster_choose(&net, &req, 8, -1, &reason)]->name, "cluster_direct");
    leave(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cluster");

    unit_loop(suite, every_algorithm, 0, SHAPES, 60);
    unit_test(suite, large_clusters, 60);
    unit_test(suite, large_calls, 60);
    unit_test(suite, interpreter_finds_errors, 20);
    unit_test(suite, layouts, 10);
    unit_test(suite, chunks, 10);
    unit_test(suite, chunk_size_near_2_64, 10);
    unit_test(suite, profiles, 10);
    unit_test(suite, choices, 10);
    unit_test(suite, testbed, 10);
    return unit_main(suite);
}
