/*
 * What set-ups of this process have found out about groups of ranks: whether they can read each other's memory, and what copies between
 * them cost. A further communicator of the same processes, in the same order, uses it, and exchanges no RESULT (setup.c).
 *
 * Each rank remembers the last few groups, and says in INFO which ones. Only if all ranks remember the same about a group, none has to
 * find it out again. So it does not matter what a rank has forgotten, nor in which order set-ups that ran at the same time have ended
 * there.
 */
#ifndef DMA_KNOWN_H
#define DMA_KNOWN_H

#include "core/setup/measure.h"

#define DMA_KNOWN 8 /* groups that a process remembers */

typedef struct dma_known {
    uint64_t number; /* made from all that follows; 0: nothing follows */
    uint64_t group;  /* made from the nonces of the ranks' arenas; a process has one entry for it */
    dma_measured_t measured;
    bool cross;
} dma_known_t;

#define DMA_KNOWN_NOBODY 1
/* `group` and one more rank. The nonces are random, so no two groups have the same number. */
uint64_t dma_known_group(uint64_t group, uint64_t nonce);
/* What is known about the group; NULL: nothing. */
dma_known_t *dma_known_find(dma_known_t known[DMA_KNOWN], uint64_t group);
/* Adds an entry without a number, or replaces that of its group. The oldest one has to go. */
void dma_known_keep(dma_known_t known[DMA_KNOWN], const dma_known_t *found);

#endif
