/* What a set-up with messages and that of a channel have in common: a block of the arena, and the window made of all blocks. */
#ifndef DMA_CORE_SETUP_BLOCK_H
#define DMA_CORE_SETUP_BLOCK_H

#include "core/comm.h"

/* The geometry that this rank would like to have: what it wants for a channel, else what the parameters say, shrunk to its
 * share of the memory that is left. */
dma_geom_t dma_setup_geometry(const dma_comm_t *comm);

/* Takes a block from the arena. If there is not enough room, *geom shrinks. NULL: no room for the least one. */
dma_block_t *dma_setup_take_block(const dma_comm_t *comm, dma_arena_t *arena, dma_geom_t *geom, uint64_t first_seq);

/* For dma_comm_t.first_epoch. */
uint32_t dma_random_epoch(void);

/* The window of the communicator, whose next call is its first. It takes the block and the three arrays over. `stream` has
 * three numbers for each rank. */
void dma_setup_init_window(dma_comm_t *comm, dma_arena_t *arena, dma_block_t *block, dma_peer_t *peers, uint32_t *acks,
                           uint64_t *stream, const dma_geom_t *geom);

#endif
