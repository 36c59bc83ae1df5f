/* The geometry of a block: see geometry.h. */
#include "core/setup/geometry.h"

#include <unistd.h>

#include "node/window.h"

#define LEAST_DEPTH 4
#define LEAST_RING  (UINT64_C(768) << 10) /* also if the size of the cache is not known */
#define MOST_RING   (UINT64_C(3) << 20)

/* Up to so many ranks, or peers, a communicator gets the sizes of the parameters. Beyond that they shrink in proportion:
 *   slots and chunks    each rank has one set of them, so what all ranks of a node take together stays as with this many ranks
 *   pair buffers        a rank has one set for each peer, so what one rank takes stays as with this many peers */
#define SLOT_RANKS  8
#define CHUNK_RANKS 16
#define PAIR_PEERS  4

/* Bounds. Those of slots, chunks and the ring are also the least values of the parameters. */
#define LEAST_SLOT          256
#define LEAST_SLOT_PER_RANK 16 /* an all-to-all puts a word or two for each rank into a slot */
#define LEAST_CHUNK         4096
#define LEAST_PAIR          1024
#define LEAST_RING_DEPTH    4
#define MOST_DEPTH          65536
#define MOST_BYTES          (1u << 30) /* of a slot, a chunk or a pair buffer */
#define CACHE_LINE          64         /* sizes are multiples of it */

static uint32_t power_of_two_below(uint64_t n)
{
    uint32_t p = 1;

    while ((uint64_t)p * 2 <= n && p < MOST_BYTES) {
        p *= 2;
    }
    return p;
}

uint32_t dma_geom_min_slot_bytes(int nranks)
{
    uint32_t least = LEAST_SLOT;

    while (least < LEAST_SLOT_PER_RANK * (uint32_t)nranks) {
        least *= 2;
    }
    return least;
}

/* Bytes of all chunks, or of all pair buffers for one peer, that a rank fills in turn. What a reader has read stays in
 * the cache of its core, and is slow to write again until other data has replaced it there. So everything that a reader
 * reads from all other ranks should be about as large as its level-2 cache. */
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

    if (nranks > SLOT_RANKS) {
        slot = slot * SLOT_RANKS / (uint64_t)nranks;
    }
    if (nranks > CHUNK_RANKS) {
        chunk = chunk * CHUNK_RANKS / (uint64_t)nranks;
    }
    if (nranks - 1 > PAIR_PEERS) {
        pair = pair * PAIR_PEERS / (uint64_t)(nranks - 1);
    }
    chunk = power_of_two_below(chunk < LEAST_CHUNK ? LEAST_CHUNK : chunk);
    pair = power_of_two_below(pair < LEAST_PAIR ? LEAST_PAIR : pair);
    if (!p->chunk_depth) {
        uint64_t ring = ring_bytes(nranks);

        depth = ring / chunk > LEAST_DEPTH ? ring / chunk : LEAST_DEPTH;
        pair = pair < ring ? ring : pair;
    }
    return (dma_geom_t){
        .ring_depth = power_of_two_below(p->ring_depth < LEAST_RING_DEPTH ? LEAST_RING_DEPTH : p->ring_depth),
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
    uint64_t chunks = deep || g->chunk_bytes > LEAST_CHUNK ? (uint64_t)g->chunk_bytes * g->chunk_depth : 0;
    uint64_t pairs = g->pair_bytes > LEAST_PAIR ? (uint64_t)g->pair_bytes * (uint64_t)(nranks - 1) : 0;
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

void dma_geom_fit(dma_geom_t *g, int nranks, uint32_t least, size_t left, size_t all)
{
    size_t most = all ? (size_t)((double)left / 4 * ((double)left / (double)all)) : 0;

    while (dma_block_layout(g, nranks).bytes > most && dma_geom_shrink(g, nranks, least)) {
    }
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void dma_geom_lessen(dma_geom_t *g, const dma_geom_t *other)
{
    g->ring_depth = lesser(g->ring_depth, other->ring_depth);
    g->slot_bytes = lesser(g->slot_bytes, other->slot_bytes);
    g->chunk_bytes = lesser(g->chunk_bytes, other->chunk_bytes);
    g->chunk_depth = lesser(g->chunk_depth, other->chunk_depth);
    g->pair_bytes = lesser(g->pair_bytes, other->pair_bytes);
    g->pair_depth = lesser(g->pair_depth, other->pair_depth);
}

static bool power_of_two(uint32_t n)
{
    return n && !(n & (n - 1));
}

static bool valid_depth(uint32_t depth)
{
    return power_of_two(depth) && depth <= MOST_DEPTH;
}

static bool valid_bytes(uint32_t bytes)
{
    return bytes <= MOST_BYTES && bytes % CACHE_LINE == 0;
}

bool dma_geom_valid(const dma_geom_t *g)
{
    return valid_depth(g->ring_depth) && g->ring_depth >= LEAST_RING_DEPTH && valid_depth(g->chunk_depth) &&
           valid_depth(g->pair_depth) && valid_bytes(g->slot_bytes) && valid_bytes(g->chunk_bytes) &&
           valid_bytes(g->pair_bytes);
}
