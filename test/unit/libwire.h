/*
 * A network for ranks that are threads (libthreads.h): messages between them in memory, behind dma/net.h.
 *
 * A send either takes a copy of its bytes and ends at once, or ends when it has been received, and its bytes are read only
 * then: at random, or always. So whoever uses its memory again too early sends something else.
 */
#ifndef DMA_TEST_LIBWIRE_H
#define DMA_TEST_LIBWIRE_H

#include <stdbool.h>

#include "dma/net.h"
#include "libthreads.h"

#define WIRE_RANKS 8

/* Jobs with it have two groups: the second is for introductions. */
extern const dma_net_ops_t wire_threads;

/* What ranks say of the bytes of their addresses, unless 0. Long ones are exchanged when two ranks connect, not in set-up. */
extern uint32_t wire_address_bytes;
#define WIRE_LONG_ADDRESS 1000

/* The calling thread is this rank. */
void wire_enter(rank_t *r);
/* The same, and its communicator of the job's first group, over several nodes; the lowest rank of its own is `first`. */
dma_comm_t *wire_comm(rank_t *r, int first);
int wire_rank(void);
/* The power of a rank's host has gone, and everybody has noticed. */
void wire_leave(int rank);
/* The rank leaves in peace: it has nothing more to do. */
void wire_goodbye(int rank);
/* Every send waits for its receive; until wire_end. */
void wire_late(void);
/* Sends of a rank that have begun, and that have ended. */
unsigned wire_begun(int rank);
unsigned wire_ended(int rank);
/* Messages of calls that may still read or write memory of the rank's. */
unsigned wire_holds(int rank);
/* After the ranks have ended: nobody waits for a message any more, and none is left. */
void wire_end(void);

#endif
