/* How large the parts of a block are: see geometry.h. */
#include "core/setup/geometry.h"

#include <unistd.h>

#define LEAST_DEPTH 4
#define LEAST_RING  (UINT64_C(768) << 10) /* also where nobody knows the size of the cache */
#define MOST_RING   (UINT64_C(3) << 20)

static uint32_t power_of_two_below(uint64_t n)
{
    uint32_t p = 1;

    while ((uint64_t)p * 2 <= n && p < (1u << 30)) {
        p *= 2;
    }
    return p;
}

uint32_t dma_geom_min_slot_bytes(int nranks)
{
    uint32_t least = 256;

    while (least < 16 * (uint32_t)nranks) {
        least *= 2;
    }
    return least;
}

/* Of the chunks or pair buffers that a rank fills. What a reader has read stays in its cache, and is slow to write again
 * until something else has taken its place there: so all that a reader reads of everybody is about as much as its
 * level-2 cache holds. */
static uint64_t ring_bytes(int nranks)
{
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    uint64_t others = nranks > 1 ? (uint64_t)nranks - 1 : 1;
    uint64_t least = cache > 0 ? (uint64_t)cache * 3 / 4 : LEAST_RING;

    least = least < LEAST_RING ? LEAST_RING : least > MOST_RING ? MOST_RING : least;
    return power_of_two_below(2 * ((least + others - 1) / others) - 1);
}

dma_geom_t dma_geom_from_params(const dma_params_t *p, int nranks)
{
    uint64_t slot = p->slot_bytes, chunk = p->chunk_bytes, pair = LEAST_DEPTH * chunk, depth = p->chunk_depth;

    if (nranks > 8) {
        slot = slot * 8 / (uint64_t)nranks;
    }
    if (nranks > 16) {
        chunk = chunk * 16 / (uint64_t)nranks;
    }
    if (nranks > 5) {
        pair = pair * 4 / (uint64_t)(nranks - 1);
    }
    chunk = power_of_two_below(chunk < 4096 ? 4096 : chunk);
    pair = power_of_two_below(pair < 1024 ? 1024 : pair);
    if (!p->chunk_depth) {
        uint64_t ring = ring_bytes(nranks);

        depth = ring / chunk > LEAST_DEPTH ? ring / chunk : LEAST_DEPTH;
        pair = pair < ring ? ring : pair;
    }
    return (dma_geom_t){
        .ring_depth = power_of_two_below(p->ring_depth < 4 ? 4 : p->ring_depth),
        .slot_bytes =
            power_of_two_below(slot < dma_geom_min_slot_bytes(nranks) ? dma_geom_min_slot_bytes(nranks) : slot),
        .chunk_bytes = (uint32_t)chunk,
        .chunk_depth = power_of_two_below(depth < 2 ? 2 : depth),
        .pair_bytes = (uint32_t)pair,
        .pair_depth = pair / chunk > LEAST_DEPTH ? (uint32_t)(pair / chunk) : LEAST_DEPTH,
    };
}

bool dma_geom_shrink(dma_geom_t *g, int nranks, uint32_t least)
{
    bool deep = g->chunk_depth > LEAST_DEPTH, pair_deep = g->pair_depth > LEAST_DEPTH;
    uint64_t chunks = deep || g->chunk_bytes > 4096 ? (uint64_t)g->chunk_bytes * g->chunk_depth : 0;
    uint64_t pairs = g->pair_bytes > 1024 ? (uint64_t)g->pair_bytes * (uint64_t)(nranks - 1) : 0;
    uint64_t slots = g->slot_bytes > least ? (uint64_t)g->slot_bytes * g->ring_depth : 0;

    if (chunks && chunks >= pairs && chunks >= slots) {
        g->chunk_depth /= deep ? 2 : 1;
        g->chunk_bytes /= deep ? 1 : 2;
    } else if (pairs && pairs >= slots) {
        g->pair_bytes /= 2;
        g->pair_depth /= pair_deep ? 2 : 1;
    } else if (slots) {
        g->slot_bytes /= 2;
    } else {
        return false;
    }
    return true;
}

static bool power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

bool dma_geom_valid(const dma_geom_t *g)
{
    const uint32_t most = 1u << 30;

    return power_of_two(g->ring_depth) && power_of_two(g->chunk_depth) && power_of_two(g->pair_depth) &&
           g->ring_depth >= 4 && g->ring_depth <= 65536 && g->chunk_depth <= 65536 && g->pair_depth <= 65536 &&
           g->slot_bytes <= most && g->chunk_bytes <= most && g->pair_bytes <= most && g->slot_bytes % 64 == 0 &&
           g->chunk_bytes % 64 == 0 && g->pair_bytes % 64 == 0;
}
