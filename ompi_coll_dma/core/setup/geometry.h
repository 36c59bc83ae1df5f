/* The geometry of a block: how large the parts of a communicator's shared memory are (node/window.h). */
#ifndef DMA_CORE_SETUP_GEOMETRY_H
#define DMA_CORE_SETUP_GEOMETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/comm.h"
#include "dma/plan.h"

/* The geometry that the parameters ask for. Slots, chunks and pair buffers shrink as the number of ranks grows, so that
 * the memory that a communicator takes on a node stays bounded. */
dma_geom_t dma_geom_from_params(const dma_params_t *p, int nranks);

/* The least size of a slot: an all-to-all puts a small block for each rank into one slot. */
uint32_t dma_geom_min_slot_bytes(int nranks);

/* Halves the largest part that can still shrink; slots not below `least`. The number of buffers is halved before their
 * size. false: no part can shrink. */
bool dma_geom_shrink(dma_geom_t *g, int nranks, uint32_t least);

/* Shrinks a geometry, if it can, until a block takes no more than its share of the `left` bytes of `all`: a quarter of them while
 * none is taken, a quarter of a half of them when one half is left, and so on. The k-th block takes at most all / (4 (1 + k/4)^2)
 * bytes then: with 32 MiB, the 100th still has 12 KiB. A constant share of what is left would go down with a power of k, and leave
 * less than that from the 27th on. */
void dma_geom_fit(dma_geom_t *g, int nranks, uint32_t least, size_t left, size_t all);

/* Each number of the one becomes the least of both. */
void dma_geom_lessen(dma_geom_t *g, const dma_geom_t *other);

/* Validates a geometry that a peer has sent, before addresses are computed from it. */
bool dma_geom_valid(const dma_geom_t *g);

#endif
