/*
 * Predicts the cost of all-gathers and all-to-alls between nodes, with the component's own cost model and plans, for
 * clusters that are not available.
 *
 *     simulate_nodes [-p PROFILE] [-r RANKS_PER_NODE] [-n NODES[,NODES...]] [-b BYTES[,BYTES...]]
 *
 * For every number of nodes, operation and block size it prints the predicted time of each algorithm, the chosen one, and
 * what the chosen one needs on a rank: messages, bytes sent, scratch of the call, and the memory for node map, plan and
 * peers. Without -p it uses the built-in profile of a network, and inside a node the built-in profile of GPUs.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/build.h"
#include "plan/cluster/cluster.h"

#define MOST 16

typedef struct options {
    dma_net_profile_t net;
    int ranks;
    unsigned long nodes[MOST], bytes[MOST];
    int nnodes, nbytes;
} options_t;

static int parse_list(const char *text, unsigned long *values)
{
    char *end;
    int n = 0;

    do {
        values[n++] = strtoul(text, &end, 10);
        if (end == text || (*end && *end != ',') || !values[n - 1]) {
            return 0;
        }
        text = end + 1;
    } while (*end && n < MOST);
    return *end ? 0 : n;
}

/* Inside a node: b2b on the DMA engines. The constants follow from the cost of the smallest and of the largest
 * blocks. */
static void inside(dma_net_profile_t *net, int ranks)
{
    dma_gpu_profile_t gpu = dma_gpu_profile_default();
    dma_plan_req_t req = {.nranks = ranks < 2 ? 2 : ranks, .in_place = true, .bytes = 64, .gpu = &gpu};
    dma_choice_t b2b = {.queues = 1};

    net->local_ps = dma_build_gpu_cost(&req, DMA_GPU_COPY, &b2b);
    net->local_mbps = gpu.link_mbps;
    net->copy_mbps = gpu.own_mbps;
}

static bool parse(options_t *o, int argc, char **argv)
{
    char error[128];
    bool given = false;

    *o = (options_t){.net = dma_net_profile_default(), .ranks = 8, .nnodes = 5, .nbytes = 6};
    memcpy(o->nodes, (unsigned long[]){1, 8, 64, 512, 4096}, 5 * sizeof(long));
    memcpy(o->bytes, (unsigned long[]){64, 1024, 16384, 262144, 4194304, 67108864}, 6 * sizeof(long));
    for (int opt; (opt = getopt(argc, argv, "p:r:n:b:")) != -1;) {
        switch (opt) {
        case 'p':
            given = true;
            if (dma_net_profile_load(optarg, &o->net, error, sizeof(error)) != DMA_OK) {
                fprintf(stderr, "simulate_nodes: %s: %s\n", optarg, error);
                return false;
            }
            break;
        case 'r':
            o->ranks = atoi(optarg);
            break;
        case 'n':
            o->nnodes = parse_list(optarg, o->nodes);
            break;
        case 'b':
            o->nbytes = parse_list(optarg, o->bytes);
            break;
        default:
            return false;
        }
    }
    if (!given) {
        inside(&o->net, o->ranks);
    }
    return o->ranks > 0 && o->ranks <= 1024 && o->nnodes && o->nbytes && optind == argc;
}

static bool lay_out(dma_node_map_t *node_map, int nodes, int ranks)
{
    uint32_t *first = malloc((size_t)nodes * (size_t)ranks * sizeof(*first));
    bool ok;

    for (int r = 0; first && r < nodes * ranks; r++) {
        first[r] = (uint32_t)(r / ranks * ranks);
    }
    ok = first && dma_node_map_create(node_map, first, nodes * ranks, 0) == DMA_OK;
    free(first);
    return ok;
}

static void print_bytes(uint64_t bytes)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    int unit = 0;

    for (; bytes >= 10240 && unit < 4; unit++) {
        bytes /= 1024;
    }
    printf(" %6" PRIu64 "%-1s", bytes, units[unit]);
}

/* Prints what the plan needs on rank 0. */
static bool print_plan(const dma_cluster_req_t *req, int variant)
{
    dma_cluster_plan_t *plan;
    uint64_t sent = 0, ops = 0, peers = 0;
    char *met = calloc((size_t)req->node_map->nranks, 1);

    if (!met || dma_cluster_build(req, variant, &plan) != DMA_OK) {
        fprintf(stderr, "simulate_nodes: no memory\n");
        free(met);
        return false;
    }
    for (uint32_t i = 0; i < plan->nops[DMA_LANE_SEND]; i++) {
        sent += plan->ops[DMA_LANE_SEND][i].bytes;
        peers += !met[plan->ops[DMA_LANE_SEND][i].peer];
        met[plan->ops[DMA_LANE_SEND][i].peer] = 1;
    }
    free(met);
    for (int lane = 0; lane < DMA_LANES; lane++) {
        ops += plan->nops[lane];
    }
    printf(" %8u", plan->nops[DMA_LANE_SEND]);
    print_bytes(sent);
    print_bytes(plan->temp_bytes);
    print_bytes((uint64_t)req->node_map->nranks * sizeof(uint32_t));
    print_bytes(ops * sizeof(dma_cluster_op_t));
    printf(" %7" PRIu64 "\n", peers);
    dma_cluster_free(plan);
    return true;
}

static bool print_row(const options_t *o, const dma_node_map_t *node_map, dma_coll_t coll, uint64_t bytes)
{
    dma_cluster_req_t req = {.coll = coll, .node_map = node_map, .send = {.bytes = bytes}, .recv = {.bytes = bytes}};
    const char *reason;
    int best = dma_cluster_choose(&o->net, &req, bytes, -1, &reason);

    req.chunk = dma_net_profile_chunk(&o->net, false);

    printf("%6d %-10s", node_map->nnodes, coll == DMA_ALLGATHER ? "allgather" : "alltoall");
    print_bytes(bytes);
    for (int v = 0; dma_cluster_variants[v]; v++) {
        const dma_cluster_variant_t *variant = dma_cluster_variants[v];

        if (dma_coll_is_served(coll, variant->serves)) {
            printf(" %s=%.1f", variant->name + strlen("cluster_"),
                   (double)variant->cost(&o->net, node_map, coll, bytes) * 1e-6);
        }
    }
    printf("  %s", dma_cluster_variants[best]->name + strlen("cluster_"));
    return print_plan(&req, best);
}

int main(int argc, char **argv)
{
    options_t o;

    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: simulate_nodes [-p PROFILE] [-r RANKS_PER_NODE] [-n NODES,...] [-b BYTES,...]\n");
        return 2;
    }
    printf(
        " nodes operation     block  microseconds by algorithm ...  chosen  messages   sent scratch  layout   plan   "
        "peers\n");
    for (int i = 0; i < o.nnodes; i++) {
        dma_node_map_t node_map;

        if (!lay_out(&node_map, (int)o.nodes[i], o.ranks)) {
            fprintf(stderr, "simulate_nodes: no memory for %lu nodes\n", o.nodes[i]);
            return 1;
        }
        for (int coll = 0; coll < 2; coll++) {
            for (int b = 0; b < o.nbytes; b++) {
                /* an all-to-all with more than 64 GiB per rank is not realistic */
                if (coll && o.bytes[b] * (uint64_t)node_map.nranks > UINT64_C(64) << 30) {
                    continue;
                }
                if (!print_row(&o, &node_map, coll ? DMA_ALLTOALL : DMA_ALLGATHER, o.bytes[b])) {
                    return 1;
                }
            }
        }
        dma_node_map_free(&node_map);
    }
    return 0;
}
