/* Votes: see votes.c. With the communicator's lock. */
#ifndef DMA_DEVICE_VOTES_H
#define DMA_DEVICE_VOTES_H

#include "core/comm.h"

/* What the ranks agree about. Each has a word of its own: a rank that goes on to slots because a vote was no must not overwrite
 * what a slower rank still has to see. */
typedef enum dma_device_ballot {
    DEVICE_BALLOT_ENGINE, /* are all exports open, is a piece ready for engines */
    DEVICE_BALLOT_SLOTS,  /* by_slots.c */
    DEVICE_BALLOTS
} dma_device_ballot_t;

/* A vote of this rank, and whether all ranks have given it. *all: with yes. */
void dma_device_vote(dma_comm_t *comm, dma_device_ballot_t ballot, bool yes);
bool dma_device_votes_are_in(const dma_comm_t *comm, dma_device_ballot_t ballot, bool *all);
/* The same for the agreement of this number, which may be an earlier one. */
bool dma_device_votes_reached(const dma_comm_t *comm, dma_device_ballot_t ballot, uint32_t number, bool *all);
/* The ranks that have not voted. */
dma_wait_t dma_device_waits_for_votes(const dma_comm_t *comm, dma_device_ballot_t ballot);

#endif
