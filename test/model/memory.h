/*
 * The windows of RANKS ranks in memory of this process: what set-up makes of the arenas of as many processes.
 *
 * Includes the product's window.c. A harness that does not take its blocks from a real arena has one block per rank.
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "model.h"

#include "node/entry.h"
#include "node/window.c" /* the product's */

#define BLOCK_BYTES 2560

static dma_window_t windows[RANKS];
static dma_peer_t peers[RANKS][RANKS];
static uint32_t acks[RANKS][RANKS];
static _Alignas(DMA_ARENA_ALIGN) char memory[RANKS][BLOCK_BYTES];

#ifndef MODEL_ARENA
void *dma_arena_alloc(dma_arena_t *arena, size_t bytes, size_t zeroed, uint32_t readers)
{
    (void)zeroed, (void)readers;
    check_that(bytes <= BLOCK_BYTES);
    return arena; /* the block itself: see make_windows */
}

void dma_arena_retire(dma_arena_t *arena, void *block)
{
    (void)arena, (void)block;
}

void dma_block_leave(void *block)
{
    (void)block;
}
#endif

#ifndef MODEL_REGISTRY
void dma_registry_put(dma_mapping_t *mapping)
{
    (void)mapping;
}

bool dma_mapping_alive(const dma_mapping_t *mapping)
{
    (void)mapping;
    return true;
}
#endif

/* Member by member: a checker does not follow copies of structures through pointers. */
static void set_sizes(dma_window_t *w, const dma_geom_t *geom)
{
    dma_block_layout_t layout = dma_block_layout(geom, RANKS);

    w->geom.ring_depth = geom->ring_depth;
    w->geom.slot_bytes = geom->slot_bytes;
    w->geom.chunk_bytes = geom->chunk_bytes;
    w->geom.chunk_depth = geom->chunk_depth;
    w->geom.pair_bytes = geom->pair_bytes;
    w->geom.pair_depth = geom->pair_depth;
    w->layout.lines = layout.lines;
    w->layout.ring = layout.ring;
    w->layout.records = layout.records;
    w->layout.slots = layout.slots;
    w->layout.chunks = layout.chunks;
    w->layout.rings = layout.rings;
    w->layout.bytes = layout.bytes;
}

/* The block of each rank, from what gives it blocks. */
static void make_windows(const dma_geom_t *geom, dma_arena_t *const arenas[RANKS], uint64_t first_seq)
{
    dma_block_t *blocks[RANKS];

    for (int r = 0; r < RANKS; r++) {
        blocks[r] = dma_window_block(arenas[r], geom, RANKS, first_seq);
        check_that(blocks[r]);
    }
    for (int r = 0; r < RANKS; r++) {
        dma_window_t *w = &windows[r];

        w->rank = r;
        w->nranks = RANKS;
        set_sizes(w, geom);
        w->own = blocks[r];
        w->arena = arenas[r];
        w->peers = peers[r];
        w->acks = acks[r];
        w->ack = w->ack_published = w->ack_floor = (uint32_t)(first_seq - 1);
        w->trace = NULL;
        w->permanent = false;
        for (int p = 0; p < RANKS; p++) {
            peers[r][p].block = blocks[p];
            acks[r][p] = (uint32_t)(first_seq - 1);
        }
    }
}

/* Windows over fresh memory. */
static inline void make_plain_windows(const dma_geom_t *geom, uint64_t first_seq)
{
    dma_arena_t *arenas[RANKS];

    for (int r = 0; r < RANKS; r++) {
        arenas[r] = (dma_arena_t *)(void *)memory[r];
#ifndef MODEL_GENMC /* it begins with memory that is 0 */
        memset(memory[r], 0, BLOCK_BYTES);
#endif
    }
    make_windows(geom, arenas, first_seq);
}

#endif
