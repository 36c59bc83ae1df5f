/* The engine map: see map.h. */
#include "engine/sdma/node/map.h"

#include <stddef.h>

#define ENGINES  32 /* bits of a mask */
#define EVEN     UINT32_C(0x55555555)
#define NO_OWNER (-1)

/* The state of one dma_map_build. */
typedef struct map {
    const dma_gen_t *gen;
    const dma_topo_gpu_t *gpu;
    const uint32_t *nodes;
    int nranks, rank;
    dma_map_pick_t *picks;
    int owner[ENGINES]; /* the rank that has the engine for itself, or NO_OWNER */
    uint32_t load[ENGINES];
} map_t;

static uint32_t below(uint32_t n)
{
    return n < ENGINES ? (UINT32_C(1) << n) - 1 : UINT32_MAX;
}

static uint32_t lowest(uint32_t mask)
{
    return (uint32_t)__builtin_ctz(mask);
}

static bool has_several(uint32_t mask)
{
    return mask & (mask - 1);
}

uint32_t dma_map_engines(const dma_gen_t *gen, const dma_topo_gpu_t *gpu)
{
    return below(gpu->host_engines + gpu->xgmi_engines) & (gen->even_engines ? EVEN : UINT32_MAX);
}

/* The XGMI engines that exist. */
static uint32_t pool(const map_t *m)
{
    return dma_map_engines(m->gen, m->gpu) & ~below(m->gpu->host_engines);
}

dma_map_pick_t dma_map_host_facing(const dma_gen_t *gen, const char *reason)
{
    /* The driver would also pick engines with odd numbers, which do not exist. */
    if (gen->even_engines) {
        return (dma_map_pick_t){.kind = DMA_MAP_ENGINE, .candidates = 1, .reason = reason};
    }
    return (dma_map_pick_t){.kind = DMA_MAP_HOST, .reason = reason};
}

static dma_map_pick_t one_of(uint32_t candidates, const char *reason)
{
    return (dma_map_pick_t){.kind = DMA_MAP_ENGINE, .candidates = candidates, .reason = reason};
}

/* For a peer without a recommendation. XGMI engines reach everything, so they are also used if no link is listed. */
static dma_map_pick_t not_recommended(const map_t *m, const char *reason)
{
    if (pool(m) == 0) {
        return dma_map_host_facing(m->gen, "this GPU has no XGMI engines");
    }
    if (m->gen->even_engines) {
        return one_of(pool(m), reason);
    }
    return (dma_map_pick_t){.kind = DMA_MAP_XGMI, .reason = reason};
}

static dma_map_pick_t recommended(const map_t *m, uint32_t mask)
{
    uint32_t there = mask & below(m->gpu->host_engines + m->gpu->xgmi_engines);

    if (m->gen->even_engines) {
        there = (there | there >> 1) & EVEN;
    }
    if (there == 0) {
        return not_recommended(m, mask ? "the driver recommends engines that are not there"
                                       : "the driver recommends no engine");
    }
    if (has_several(there) && there & pool(m)) {
        there &= pool(m); /* host-facing engines are slower towards peers, and other copies use them */
    }
    if (has_several(there)) {
        return one_of(there, "one of the engines that the driver recommends for this link");
    }
    return one_of(there, "the engine that the driver recommends for this link");
}

/* The best link to a node: a direct XGMI link, otherwise any link. */
static const dma_topo_link_t *link_to(const dma_topo_gpu_t *gpu, uint32_t node)
{
    const dma_topo_link_t *best = NULL;

    for (uint32_t i = 0; i < gpu->nlinks; i++) {
        const dma_topo_link_t *link = &gpu->links[i];
        if (link->to == node && (!best || (best->type != DMA_TOPO_XGMI && link->type == DMA_TOPO_XGMI))) {
            best = link;
        }
    }
    return best;
}

static dma_map_pick_t pick(const map_t *m, int peer)
{
    const dma_topo_link_t *link = link_to(m->gpu, m->nodes[peer]);

    if (peer == m->rank) {
        return dma_map_host_facing(m->gen, "the own block stays on this GPU");
    }
    if (m->nodes[peer] == m->gpu->node) {
        return dma_map_host_facing(m->gen, "the peer is on the same GPU");
    }
    if (!link) {
        return not_recommended(m, "no link to the peer's GPU is listed");
    }
    if (link->type != DMA_TOPO_XGMI) {
        return dma_map_host_facing(m->gen, "the peer is behind PCIe");
    }
    return recommended(m, link->engines);
}

/* If several ranks are on one GPU, the first stands for all: they share one link, and more engines do not make it
 * faster. */
static int first_on(const map_t *m, int rank)
{
    int first = 0;

    while (m->nodes[first] != m->nodes[rank] || first == m->rank) {
        first++;
    }
    return first;
}

/* Finds an engine for a rank, if necessary by moving other ranks to other engines: an augmenting path of a bipartite
 * matching. */
static bool assign_engine(map_t *m, int rank, uint32_t *tried)
{
    for (uint32_t left = m->picks[rank].candidates & ~*tried; left; left &= ~*tried) {
        uint32_t engine = lowest(left);
        *tried |= UINT32_C(1) << engine;
        if (m->owner[engine] == NO_OWNER || assign_engine(m, m->owner[engine], tried)) {
            m->owner[engine] = rank;
            return true;
        }
    }
    return false;
}

static uint32_t least_loaded(const map_t *m, uint32_t candidates)
{
    uint32_t best = lowest(candidates);

    for (uint32_t left = candidates; left; left &= left - 1) {
        if (m->load[lowest(left)] < m->load[best]) {
            best = lowest(left);
        }
    }
    return best;
}

static bool is_spread(const map_t *m, int rank)
{
    return m->picks[rank].kind == DMA_MAP_ENGINE && m->nodes[rank] != m->gpu->node && first_on(m, rank) == rank;
}

static void spread(map_t *m)
{
    for (int i = 0; i < m->nranks; i++) {
        uint32_t tried = 0;
        if (is_spread(m, i)) {
            assign_engine(m, i, &tried);
        }
    }
    for (uint32_t e = 0; e < ENGINES; e++) {
        if (m->owner[e] != NO_OWNER) {
            m->picks[m->owner[e]].engine = e;
            m->load[e]++;
        }
    }
    for (int i = 0; i < m->nranks; i++) {
        if (is_spread(m, i) && m->owner[m->picks[i].engine] != i) {
            m->picks[i].engine = least_loaded(m, m->picks[i].candidates);
            m->load[m->picks[i].engine]++;
        }
    }
    for (int i = 0; i < m->nranks; i++) {
        if (m->picks[i].kind == DMA_MAP_ENGINE && m->nodes[i] != m->gpu->node && first_on(m, i) != i) {
            m->picks[i].engine = m->picks[first_on(m, i)].engine;
            m->load[m->picks[i].engine]++;
        }
    }
}

/* The driver picks engines in turn. So its picks do not collide unless there are more picks than engines, but they
 * may collide with an engine that was picked by number. */
static bool has_own_engine(const map_t *m, const dma_map_pick_t *p, uint32_t named, uint32_t unnamed)
{
    switch (p->kind) {
    case DMA_MAP_ENGINE:
        return p->engine >= m->gpu->host_engines && m->load[p->engine] == 1 && unnamed == 0;
    case DMA_MAP_XGMI:
        return named == 0 && unnamed <= m->gpu->xgmi_engines;
    default:
        return false;
    }
}

static void set_may_wait(map_t *m)
{
    uint32_t named = 0, unnamed = 0;
    bool shared = false;

    for (uint32_t e = m->gpu->host_engines; e < ENGINES; e++) {
        named += m->load[e];
    }
    for (int i = 0; i < m->nranks; i++) {
        unnamed += m->picks[i].kind == DMA_MAP_XGMI;
        shared |= i != m->rank && m->nodes[i] == m->gpu->node;
    }
    for (int i = 0; i < m->nranks; i++) {
        m->picks[i].may_wait = !shared && has_own_engine(m, &m->picks[i], named, unnamed);
    }
}

void dma_map_build(const dma_gen_t *gen, const dma_topo_gpu_t *gpu, const uint32_t *nodes, int nranks, int rank,
                   dma_map_pick_t *picks)
{
    map_t m = {.gen = gen, .gpu = gpu, .nodes = nodes, .nranks = nranks, .rank = rank, .picks = picks};

    for (uint32_t e = 0; e < ENGINES; e++) {
        m.owner[e] = NO_OWNER;
    }
    for (int i = 0; i < nranks; i++) {
        picks[i] = pick(&m, i);
    }
    spread(&m);
    set_may_wait(&m);
}
