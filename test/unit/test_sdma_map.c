/* Which engine copies to whom, on machines that we do not have. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/hw/gen.h"
#include "engine/sdma/node/map.h"
#include "libsdma_tree.h"
#include "libunit.h"

#define MAX 64

/* A job: ranks on GPUs of a machine, seen from one of them. */
typedef struct job {
    dma_topo_t *topo;
    const dma_topo_gpu_t *gpu;
    const dma_gen_t *gen;
    uint32_t nodes[MAX];
    dma_map_pick_t picks[MAX];
    int nranks, rank;
} job_t;

static void map(job_t *j, int rank)
{
    const char *reason = "";

    j->rank = rank;
    j->gpu = NULL;
    for (uint32_t i = 0; i < j->topo->ngpus; i++) {
        if (j->topo->gpus[i].node == j->nodes[rank]) {
            j->gpu = &j->topo->gpus[i];
        }
    }
    ck_assert_ptr_nonnull(j->gpu);
    j->gen = dma_gen_find(j->gpu->device_id, j->gpu->version, &reason);
    ck_assert_ptr_nonnull(j->gen);
    memset(j->picks, 0xa5, sizeof(j->picks));
    dma_map_build(j->gen, j->gpu, j->nodes, j->nranks, rank, j->picks);
}

/* Rank i on GPU i, of all GPUs. */
static job_t job(const char *machine)
{
    job_t j = {.topo = tree_read(machine)};

    j.nranks = (int)j.topo->ngpus;
    for (int i = 0; i < j.nranks; i++) {
        j.nodes[i] = j.topo->gpus[i].node;
    }
    return j;
}

static void is_engine(const job_t *j, int peer, uint32_t engine)
{
    ck_assert_msg(j->picks[peer].kind == DMA_MAP_ENGINE && j->picks[peer].engine == engine,
                  "rank %d to %d: kind %d engine %u, not engine %u (%s)", j->rank, peer, j->picks[peer].kind,
                  j->picks[peer].engine, engine, j->picks[peer].reason);
}

/* How many engines serve the peers, and the most peers that one of them serves. */
static int engines_used(const job_t *j, int *most)
{
    int used = 0, count[32] = {0};

    *most = 0;
    for (int i = 0; i < j->nranks; i++) {
        if (i != j->rank && j->picks[i].kind == DMA_MAP_ENGINE) {
            used += count[j->picks[i].engine]++ == 0;
            *most = count[j->picks[i].engine] > *most ? count[j->picks[i].engine] : *most;
        }
    }
    return used;
}

/* Of every pick of every machine, from every rank. */
static void sound(const job_t *j)
{
    uint32_t engines = j->gpu->host_engines + j->gpu->xgmi_engines;

    for (int i = 0; i < j->nranks; i++) {
        const dma_map_pick_t *p = &j->picks[i];
        ck_assert_ptr_nonnull(p->reason);
        ck_assert_uint_gt(strlen(p->reason), 10);
        if (p->kind == DMA_MAP_ENGINE) {
            ck_assert_uint_lt(p->engine, engines);
            ck_assert(p->candidates >> p->engine & 1);
            ck_assert(!j->gen->even_engines || p->candidates % 2 == 0 || p->engine == 0);
            ck_assert(!(j->gen->even_engines && p->candidates & 0xaaaaaaaa));
            ck_assert(!(p->may_wait && p->engine < j->gpu->host_engines));
        } else {
            ck_assert(!j->gen->even_engines);
            ck_assert(p->kind != DMA_MAP_HOST || !p->may_wait);
        }
    }
    ck_assert(!j->picks[j->rank].may_wait);
}

static const char *const machines[] = {"mi300x-spx", "mi325x",     "mi308x",   "six-engines", "mi350x",
                                       "mi300x-dpx", "mi300x-cpx", "mi300x-4", "mi210-2",     "mi210-pcie",
                                       "mi250x",     "multi-bit",  "mi100"};

#define MACHINES (int)(sizeof(machines) / sizeof(machines[0]))

START_TEST(sound_everywhere)
{
    job_t j = job(machines[_i]);

    for (int rank = 0; rank < j.nranks; rank++) {
        map(&j, rank);
        sound(&j);
    }
    dma_topo_free(j.topo);
}
END_TEST

/* The table of the driver for eight linked GPUs: one engine per peer, seven in use, all may wait. */
START_TEST(one_bit_masks)
{
    static const uint32_t want[8][8] = {{0, 14, 12, 2, 4, 8, 10, 6}, {14, 0, 2, 10, 8, 4, 6, 12},
                                        {10, 2, 0, 12, 14, 6, 4, 8}, {2, 12, 10, 0, 6, 14, 8, 4},
                                        {4, 8, 14, 6, 0, 10, 12, 2}, {8, 4, 6, 14, 12, 0, 2, 10},
                                        {10, 6, 4, 8, 12, 2, 0, 14}, {6, 12, 8, 4, 2, 10, 14, 0}};
    job_t j = job(_i ? "mi325x" : "mi300x-spx");
    int most;

    for (int rank = 0; rank < 8; rank++) {
        map(&j, rank);
        for (int i = 0; i < 8; i++) {
            if (i != rank) {
                is_engine(&j, i, want[rank][i]);
                ck_assert(j.picks[i].may_wait);
                ck_assert_uint_eq(j.picks[i].candidates, UINT32_C(1) << want[rank][i]);
            }
        }
        ck_assert_int_eq(engines_used(&j, &most), 7);
        ck_assert_int_eq(j.picks[rank].kind, DMA_MAP_HOST);
    }
    dma_topo_free(j.topo);
}
END_TEST

START_TEST(two_bits_per_peer)
{
    job_t j = job("mi350x");
    int most;

    for (int rank = 0; rank < 8; rank++) {
        map(&j, rank);
        ck_assert_int_eq(engines_used(&j, &most), 7);
        for (int i = 0; i < 8; i++) {
            ck_assert(i == rank || (j.picks[i].may_wait && __builtin_popcount(j.picks[i].candidates) == 2));
        }
    }
    map(&j, 0);
    ck_assert_uint_eq(j.picks[1].engine & ~1u, 14);
    ck_assert_uint_eq(j.picks[7].engine & ~1u, 6);
    dma_topo_free(j.topo);
}
END_TEST

/* Odd engines do not exist on this machine: the three even ones of XGMI serve all seven peers, and a recommendation of an odd
 * engine means the even one below. The driver chooses the engine of no queue. */
START_TEST(even_engines_only)
{
    job_t j = job("mi308x");
    int most;

    map(&j, 0); /* - 80 40 fc 4 10 20 8 */
    is_engine(&j, 1, 6);
    is_engine(&j, 2, 6);
    is_engine(&j, 4, 2);
    is_engine(&j, 5, 4);
    is_engine(&j, 6, 4);
    is_engine(&j, 7, 2);
    ck_assert_uint_eq(j.picks[3].candidates, 0x54);
    for (int rank = 0; rank < 8; rank++) {
        map(&j, rank);
        ck_assert_int_eq(engines_used(&j, &most), 3);
        ck_assert_int_le(most, 3);
        is_engine(&j, rank, 0);
        ck_assert_uint_eq(dma_map_engines(j.gen, j.gpu), 0x55);
    }
    /* a driver that says nothing, and a peer it has no link to */
    for (uint32_t i = 0; i < j.gpu->nlinks; i++) {
        ((dma_topo_link_t *)j.gpu->links)[i].engines = 0;
    }
    j.nodes[0] = 250;
    map(&j, 7);
    sound(&j);
    ck_assert_int_eq(engines_used(&j, &most), 3);
    ck_assert_int_eq(most, 3);
    dma_topo_free(j.topo);
}
END_TEST

START_TEST(six_engines)
{
    job_t j = job("six-engines");
    int most;

    map(&j, 0);
    is_engine(&j, 1, 7);
    is_engine(&j, 2, 6);
    is_engine(&j, 4, 2);
    is_engine(&j, 5, 4);
    is_engine(&j, 6, 5);
    is_engine(&j, 7, 3);
    ck_assert_uint_eq(j.picks[3].candidates, 0xfc); /* seven peers, six engines: it shares one */
    ck_assert(!j.picks[3].may_wait);
    ck_assert_int_eq(engines_used(&j, &most), 6);
    ck_assert_int_eq(most, 2);
    ck_assert_uint_eq(dma_map_engines(j.gen, j.gpu), 0xff);
    dma_topo_free(j.topo);
}
END_TEST

/* - c 4 18 18 3c: whoever comes first must not take what another needs; and masks of engines that are not there. */
START_TEST(overlapping_masks)
{
    job_t j = job("multi-bit");
    int most;

    map(&j, 0);
    ck_assert_int_eq(engines_used(&j, &most), 4);
    is_engine(&j, 2, 2);
    is_engine(&j, 1, 3);
    ck_assert(!j.picks[2].may_wait || j.picks[5].engine != 2);
    map(&j, 1);
    ck_assert_int_eq(engines_used(&j, &most), 5);
    map(&j, 2); /* 3 7 - 1 100 101 */
    ck_assert_uint_eq(j.picks[0].candidates, 3);
    is_engine(&j, 1, 2); /* of those that face the host and one that does not */
    is_engine(&j, 3, 0);
    ck_assert_int_eq(j.picks[4].kind, DMA_MAP_XGMI);
    ck_assert_ptr_nonnull(strstr(j.picks[4].reason, "not there"));
    is_engine(&j, 5, 0);
    map(&j, 3); /* 0 none f00 - 4 4 */
    ck_assert_int_eq(j.picks[0].kind, DMA_MAP_XGMI);
    ck_assert_int_eq(j.picks[1].kind, DMA_MAP_XGMI);
    ck_assert_int_eq(j.picks[2].kind, DMA_MAP_XGMI);
    ck_assert(!j.picks[0].may_wait); /* the driver might pick engine 2, too */
    is_engine(&j, 4, 2);
    is_engine(&j, 5, 2);
    ck_assert(!j.picks[4].may_wait && !j.picks[5].may_wait);
    j.nranks = 5; /* and it might pick the one that has a single peer now */
    map(&j, 3);
    is_engine(&j, 4, 2);
    ck_assert(!j.picks[4].may_wait && !j.picks[0].may_wait);
    j.nranks = 4;
    map(&j, 3);
    ck_assert(j.picks[0].may_wait && j.picks[1].may_wait && j.picks[2].may_wait);
    j.nranks = 6;
    map(&j, 4); /* c c c c - c: five peers on two engines, evenly */
    ck_assert_int_eq(engines_used(&j, &most), 2);
    ck_assert_int_eq(most, 3);
    map(&j, 5); /* ff fc 20 20 20 -: three want one, the others find their own */
    ck_assert_int_eq(engines_used(&j, &most), 3);
    ck_assert_int_eq(most, 3);
    ck_assert(j.picks[0].may_wait && j.picks[1].may_wait && !j.picks[2].may_wait);
    dma_topo_free(j.topo);
}
END_TEST

START_TEST(pools)
{
    job_t j = job("mi300x-4");
    int most;

    map(&j, 1);
    ck_assert_int_eq(engines_used(&j, &most), 3);
    ck_assert_uint_eq(j.picks[0].candidates, 0xfffc);
    dma_topo_free(j.topo);

    j = job("mi300x-dpx");
    map(&j, 3);
    ck_assert_int_eq(engines_used(&j, &most), 3);
    ck_assert(j.picks[0].may_wait && j.picks[0].engine >= 2);
    dma_topo_free(j.topo);

    j = job("mi300x-cpx"); /* fifteen peers, and both engines face the host */
    map(&j, 0);
    ck_assert_int_eq(engines_used(&j, &most), 2);
    ck_assert_int_eq(most, 8);
    ck_assert(!j.picks[1].may_wait);
    dma_topo_free(j.topo);

    j = job("mi250x"); /* seven peers, three engines */
    map(&j, 5);
    ck_assert_int_eq(engines_used(&j, &most), 3);
    ck_assert_int_eq(most, 3);
    ck_assert(!j.picks[0].may_wait);
    dma_topo_free(j.topo);
}
END_TEST

START_TEST(nothing_recommended)
{
    job_t j = job("mi210-2");

    map(&j, 0);
    ck_assert_int_eq(j.picks[1].kind, DMA_MAP_XGMI);
    ck_assert(j.picks[1].may_wait);
    ck_assert_ptr_nonnull(strstr(j.picks[1].reason, "recommends no engine"));
    ck_assert_int_eq(j.picks[0].kind, DMA_MAP_HOST);
    /* without engines for it */
    j.topo->gpus[0].xgmi_engines = 0;
    map(&j, 0);
    ck_assert_int_eq(j.picks[1].kind, DMA_MAP_HOST);
    ck_assert_ptr_nonnull(strstr(j.picks[1].reason, "no XGMI engines"));
    dma_topo_free(j.topo);

    j = job("mi210-pcie");
    map(&j, 2);
    ck_assert_int_eq(j.picks[0].kind, DMA_MAP_HOST);
    ck_assert_ptr_nonnull(strstr(j.picks[0].reason, "PCIe"));
    dma_topo_free(j.topo);

    /* more peers than engines that the driver might pick: two may meet */
    j = job("mi250x");
    for (uint32_t i = 0; i < j.topo->gpus[0].nlinks; i++) {
        j.topo->gpus[0].links[i].engines = 0;
    }
    map(&j, 0);
    ck_assert_int_eq(j.picks[1].kind, DMA_MAP_XGMI);
    ck_assert(!j.picks[1].may_wait);
    j.nranks = 4;
    map(&j, 0);
    ck_assert(j.picks[1].may_wait);
    dma_topo_free(j.topo);
}
END_TEST

/* Where the driver lists a way through the host before the link, the link is taken. */
START_TEST(bridged_and_direct)
{
    char *root = tree_make("mi300x-spx");
    const char *reason = "";
    job_t j = {.nranks = 2, .nodes = {2, 3}};

    tree_write(root, "nodes/2/io_links/0/properties", "type 2\nnode_to 3\nrecommended_sdma_engine_id_mask 3\n");
    ck_assert_int_eq(dma_topo_read(root, &j.topo, &reason), DMA_OK);
    tree_remove(root);
    map(&j, 0);
    is_engine(&j, 1, 14);
    dma_topo_free(j.topo);
}
END_TEST

/* Ranks on one GPU: nothing of that GPU may wait, between them no link is used, and peers that share a remote GPU share
 * the engine towards it. */
START_TEST(ranks_on_one_gpu)
{
    static const uint32_t gpu[] = {0, 1, 0, 2, 1};
    job_t j = job("mi300x-spx");

    j.nranks = 5;
    for (int i = 0; i < 5; i++) {
        j.nodes[i] = j.topo->gpus[gpu[i]].node;
    }
    map(&j, 0);
    sound(&j);
    ck_assert_int_eq(j.picks[2].kind, DMA_MAP_HOST);
    ck_assert_ptr_nonnull(strstr(j.picks[2].reason, "same GPU"));
    is_engine(&j, 1, 14);
    is_engine(&j, 4, 14);
    for (int i = 0; i < 5; i++) {
        ck_assert(!j.picks[i].may_wait);
    }
    map(&j, 3); /* alone on its GPU */
    is_engine(&j, 0, 10);
    is_engine(&j, 2, 10);
    is_engine(&j, 1, 2);
    for (int i = 0; i < 5; i++) {
        ck_assert(!j.picks[i].may_wait); /* each engine serves two ranks */
    }
    dma_topo_free(j.topo);

    j = job("mi350x"); /* of two engines towards one GPU, its two ranks use one */
    j.nranks = 3;
    j.nodes[1] = j.nodes[2];
    map(&j, 0);
    ck_assert_uint_eq(j.picks[1].engine, j.picks[2].engine);
    dma_topo_free(j.topo);

    j = job("multi-bit"); /* and leave the other to those who need it */
    j.nranks = 4;
    j.nodes[3] = j.nodes[2];
    j.nodes[2] = j.nodes[1];
    map(&j, 0);
    is_engine(&j, 1, 3);
    is_engine(&j, 2, 3);
    is_engine(&j, 3, 2);
    ck_assert(j.picks[3].may_wait);
    dma_topo_free(j.topo);
}
END_TEST

/* What a rank may not read about peers it needs not: the links of its own GPU name their nodes. */
START_TEST(hidden_peers)
{
    char *root = tree_make("mi300x-spx");
    const char *reason = "";
    job_t j = {.nranks = 8}, all = job("mi300x-spx");

    for (int i = 0; i < 8; i++) {
        char path[64];
        j.nodes[i] = 2 + (uint32_t)i;
        snprintf(path, sizeof(path), "nodes/%d/gpu_id", i + 2);
        if (i != 3) {
            tree_bar(root, path);
        }
    }
    ck_assert_int_eq(dma_topo_read(root, &j.topo, &reason), DMA_OK);
    tree_remove(root);
    ck_assert_uint_eq(j.topo->ngpus, 1);
    ck_assert_uint_eq(j.topo->hidden, 7);
    map(&j, 3);
    map(&all, 3);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(j.picks[i].kind, all.picks[i].kind);
        ck_assert_uint_eq(j.picks[i].engine, all.picks[i].engine);
    }
    dma_topo_free(j.topo);
    dma_topo_free(all.topo);
}
END_TEST

/* Ranks in another order than GPUs: the engine goes by the GPU, not by the rank. */
START_TEST(reordered_devices)
{
    static const int order[8] = {7, 3, 0, 5, 1, 6, 2, 4};
    job_t plain = job("mi300x-spx"), j = job("mi300x-spx");

    for (int i = 0; i < 8; i++) {
        j.nodes[i] = j.topo->gpus[order[i]].node;
    }
    for (int rank = 0; rank < 8; rank++) {
        map(&j, rank);
        map(&plain, order[rank]);
        for (int i = 0; i < 8; i++) {
            ck_assert_int_eq(j.picks[i].kind, plain.picks[order[i]].kind);
            ck_assert_uint_eq(j.picks[i].engine, plain.picks[order[i]].engine);
        }
    }
    dma_topo_free(plain.topo);
    dma_topo_free(j.topo);
}
END_TEST

/* The most peers that can have an engine of their own, by trying everything. */
static int best_matching(const uint32_t *masks, int n, uint32_t taken)
{
    int best = 0;

    if (n == 0) {
        return 0;
    }
    best = best_matching(masks + 1, n - 1, taken);
    for (uint32_t left = masks[0] & ~taken; left; left &= left - 1) {
        int with = 1 + best_matching(masks + 1, n - 1, taken | (left & -left));
        best = with > best ? with : best;
    }
    return best;
}

START_TEST(random_masks)
{
    job_t j = job("six-engines");
    unsigned seed = (unsigned)unit_seed();
    dma_topo_gpu_t *gpu = &j.topo->gpus[0];
    int most;

    for (int round = 0; round < 300; round++) {
        uint32_t masks[7];
        int n = 0;
        for (uint32_t i = 0; i < gpu->nlinks; i++) {
            if (gpu->links[i].type == DMA_TOPO_XGMI) {
                uint32_t some = (uint32_t)rand_r(&seed) & (uint32_t)rand_r(&seed) & 0xfc;
                gpu->links[i].engines = some ? some : 0x10;
                masks[n++] = gpu->links[i].engines;
            }
        }
        ck_assert_int_eq(n, 7);
        map(&j, 0);
        sound(&j);
        ck_assert_int_eq(engines_used(&j, &most), best_matching(masks, n, 0));
    }
    dma_topo_free(j.topo);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sdma map");

    unit_loop(suite, sound_everywhere, 0, MACHINES, 10);
    unit_loop(suite, one_bit_masks, 0, 2, 10);
    unit_test(suite, two_bits_per_peer, 10);
    unit_test(suite, even_engines_only, 10);
    unit_test(suite, six_engines, 10);
    unit_test(suite, overlapping_masks, 10);
    unit_test(suite, pools, 10);
    unit_test(suite, nothing_recommended, 10);
    unit_test(suite, bridged_and_direct, 10);
    unit_test(suite, ranks_on_one_gpu, 10);
    unit_test(suite, hidden_peers, 10);
    unit_test(suite, reordered_devices, 10);
    unit_test(suite, random_masks, 20);
    return unit_main(suite);
}
