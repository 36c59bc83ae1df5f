/*
 * Votes: how the ranks agree on something that each of them has tried.
 *
 * The word in the agreed line of a rank has the number of the agreement, and in the lowest bits the rank's vote. A rank that has
 * all votes knows the result. It may go on to the next agreement only after a yes of all ranks, or by a word of another ballot:
 * a slower rank still has to see a no.
 */
#include "device/device.h"

enum { VOTE_YES = 1, VOTE_NO = 2, VOTE_BITS = 2, VOTE_MASK = 3 };

static _Atomic uint32_t *vote_of(const dma_comm_t *comm, int rank, dma_device_ballot_t ballot)
{
    dma_engine_line_t *line = dma_window_agreed(&comm->window, rank);

    return ballot == DEVICE_BALLOT_ENGINE ? &line->word : &line->by_epoch[0];
}

/* How many agreements the rank with this word is ahead of that number; -1: it has not voted in it. A rank is ahead if it has
 * seen that all have voted yes, and votes for the next piece of the call. */
static int votes_ahead(uint32_t number, uint32_t word)
{
    int32_t ahead = (int32_t)((word & ~(uint32_t)VOTE_MASK) - (number << VOTE_BITS)) >> VOTE_BITS;

    return ahead < 0 ? -1 : ahead;
}

void dma_device_vote(dma_comm_t *comm, dma_device_ballot_t ballot, bool yes)
{
    uint32_t number = ++comm->device->agreements[ballot];

    /* release: this rank's reads of the records come before a peer that has seen the vote overwrites its record, and so does
     * what the vote says about its memory */
    atomic_store_explicit(vote_of(comm, comm->rank, ballot), number << VOTE_BITS | (yes ? VOTE_YES : VOTE_NO),
                          memory_order_release);
}

bool dma_device_votes_reached(const dma_comm_t *comm, dma_device_ballot_t ballot, uint32_t number, bool *all)
{
    *all = true;
    for (int r = 0; r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(vote_of(comm, r, ballot), memory_order_acquire);
        int ahead = votes_ahead(number, word);

        if (ahead < 0) {
            return false;
        }
        *all = *all && (ahead || (word & VOTE_MASK) == VOTE_YES);
    }
    return true;
}

bool dma_device_votes_are_in(const dma_comm_t *comm, dma_device_ballot_t ballot, bool *all)
{
    return dma_device_votes_reached(comm, ballot, comm->device->agreements[ballot], all);
}

dma_wait_t dma_device_waits_for_votes(const dma_comm_t *comm, dma_device_ballot_t ballot)
{
    dma_wait_t wait = {0};

    for (int r = 0; r < comm->nranks; r++) {
        uint32_t word = atomic_load_explicit(vote_of(comm, r, ballot), memory_order_relaxed);

        if (votes_ahead(comm->device->agreements[ballot], word) < 0) {
            dma_wait_add(&wait, DMA_WAIT_FLAG, r);
        }
    }
    return wait;
}
