/* How large the parts of a communicator's shared memory are. */
#ifndef DMA_GEOMETRY_H
#define DMA_GEOMETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/comm.h"
#include "dma/plan.h"

/* What the parameters ask for. Slots and chunks shrink as ranks grow in number: the memory of a node that one
 * communicator may take stays bounded. */
dma_geom_t dma_geom_from_params(const dma_params_t *p, int nranks);

/* A slot has room for a word or two per rank at least: all-to-alls need that. */
uint32_t dma_geom_min_slot_bytes(int nranks);

/* Halves the largest part that may still shrink, slots down to `least`; false: there is none. Of buffers there are fewer
 * before they are smaller. */
bool dma_geom_shrink(dma_geom_t *g, int nranks, uint32_t least);

/* What comes from a peer is checked before it becomes an address. */
bool dma_geom_valid(const dma_geom_t *g);

#endif
