/*
 * A network for ranks that are threads (libthreads.h): messages in memory, behind dma/net.h.
 *
 * A send either copies its bytes and ends at once, or ends when it has been received, and its bytes are read only
 * then. Which one is random, or always the same. So a rank that reuses its memory too early sends wrong data. A receive
 * from a rank that has left is refused at once, unless the message is there.
 */
#ifndef DMA_TEST_LIBWIRE_H
#define DMA_TEST_LIBWIRE_H

#include <stdbool.h>

#include "dma/net.h"
#include "libthreads.h"

#define WIRE_RANKS 8

/* Jobs with this network have two groups. The second is for the exchange of addresses. */
extern const dma_net_ops_t wire_threads;

/* The size of addresses that ranks announce, unless 0. Long addresses are exchanged when two ranks connect, not in
 * set-up. */
extern uint32_t wire_address_bytes;
#define WIRE_LONG_ADDRESS 1000

/* The calling thread is this rank. */
void wire_enter(rank_t *r);
/* The same, and its communicator on the job's first group, over several nodes. `first` is the lowest rank of its
 * own node. */
dma_comm_t *wire_comm(rank_t *r, int first);
int wire_rank(void);
/* The power of a rank's host has failed, and everybody has noticed. */
void wire_leave(int rank);
/* The rank has nothing more to do, and leaves without an error. */
void wire_goodbye(int rank);
/* From now on every send waits for its receive, until wire_end. */
void wire_late(void);
/* The same, but every send copies its bytes. */
void wire_eager(void);
/* The sends of a rank that have begun, and those that have ended. */
unsigned wire_begun(int rank);
unsigned wire_ended(int rank);
/* Messages of calls that may still access memory of the rank. */
unsigned wire_holds(int rank);
/* After the ranks have ended: nobody waits for a message, and no message is left. */
void wire_end(void);

#endif
