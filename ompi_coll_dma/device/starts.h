/*
 * Starts of persistent calls without messages between processors: one protocol for all ways to start.
 *
 * *_init has prepared the call (persistent.c): buffers, exports, plan and programs are those of every start. So a start publishes no
 * descriptor. The ranks meet in words of shared memory, which processors, DMA queues and streams of the GPU's runtime can store and
 * wait for:
 *
 *     window of a rank                     stored by                                  waited for by
 *     | ready             | an epoch       this rank: it has started                  all ranks
 *     | trigger: even odd | trigger.h      this rank arms and revokes; a rank that    this rank's armed queues
 *     |                   |                finds all ready words lets go
 *     | line of program i | an epoch       this rank's engine, behind the copies      this rank, and receivers of the copies
 *     | poison            | a status       a rank that fails                          all ranks
 *     arena of a rank, with partitions (parts.c)
 *     | arrived: bank, sender, partition   the engine of the sender                   the application, also its kernels
 *
 * The epoch of a start is its number, equal on all ranks. Epochs of one channel count starts of all kinds.
 *
 * Order. Each arrow is a store with release and a load with acquire, or what an engine does in place of them:
 *
 *     the user's data  ->  ready words of all ranks  ->  copies  ->  lines of their programs  ->  the start has ended here
 *
 * A start ends with the lines of all programs that concern the rank. So at most one run of a channel is in progress, and no word is
 * more than one epoch ahead of what anyone waits for. The words stay where they are until the last start has ended.
 *
 *     starter             stores `ready`    waits for those of all         copies           waits for lines
 *     host (starts.c)     MPI_Start         progress                       engine.start     progress
 *     armed (starts.c)    MPI_Start         queues, at their trigger       queues           progress
 *     with partitions     MPI_Start         queues, at their trigger and   queues           progress
 *       (parts.c)                           at words of each partition
 *     stream              the stream        the stream                     the stream       the stream
 *       (in_stream.c)
 *
 * Each rank chooses its way for each start; the others need not know. One fact is agreed in *_init: may any rank arm? If so, the
 * rank that starts last writes the triggers of all. To find out that it is the last, each rank stores its ready word before it reads
 * the others', both sequentially consistent. So at least one rank sees all of them, and perhaps several do.
 *
 * States of a channel. `arm` gives the programs of the next start to the engine, `disarm` takes them back.
 *
 *                       arm                   start                            lines
 *       +--> QUIET  ----------> ARMED  --------------> ARMED RUN  -------------------+
 *       |      |    <----------                            |  arm                    |
 *       |      |    disarm, or nobody has started          v                         |
 *       |      |    for coll_dma_armed_seconds    ARMED RUN, NEXT ARMED  --> ARMED    |
 *       |      |                                                                     |
 *       |      +-- start --> RUN (written when all have started)  -- lines: arm ---->+
 *       |      +-- start in a stream --> STREAM -- start in it: STREAM -- end ------>+
 *       +----------------------------------------------------------------------------+
 *
 * next_is_armed, run_is_armed and in_stream say in which state a channel is. A channel with partitions is armed again only when a run
 * has ended; see parts.c.
 *
 * Failure. The rank sets the poison, and then gives its buffers back (dma_starts_stop):
 *
 *     - It claims the triggers of all ranks: programs that have not been let go will never be. It revokes its own.
 *     - Its stream must go on, because the program waits for it. So the rank forges the words that the stream waits for: it stores the
 *       last epoch there, and again until the communicator is destroyed (dma_starts_push_on), because streams of other ranks still store to them.
 *       The stream then does all copies that it has, also into buffers of ranks that have not failed.
 *     - Copies that have been let go get a bounded time to end. What queues and streams may still use stays registered and mapped.
 *
 * Whoever has seen a word reads the poison (acquire) before it begins copies, and before it says that a start
 * has ended: the poison was stored before (release).
 */
#ifndef DMA_DEVICE_STARTS_H
#define DMA_DEVICE_STARTS_H

#include "device/device.h"

/* ---- words; without a lock where `comm` is const ---- */

/* The epoch of the last start of this rank, by its ready word. A stream stores it when it comes to the start. */
uint32_t dma_starts_reached(const dma_comm_t *comm);
/* Which ranks have not started. `lines`: or which lines of others have not come, if all have. */
dma_wait_t dma_starts_wait(const dma_comm_t *comm, uint32_t epoch, bool lines);

/* Lets the device access the arenas of all ranks: dc->arenas[r] is where, until dma_starts_stop. */
bool dma_starts_map(dma_comm_t *comm);
void dma_starts_unmap(dma_comm_t *comm);
/* What a stream stores and waits for, in the address space of the device. `room`: for as many addresses as the function above it
 * says. */
size_t dma_starts_count_words(const dma_comm_t *comm);
bool dma_starts_find_words(dma_comm_t *comm, dma_gpu_in_stream_t *words, uint64_t *room);

/* ---- starts by the host; with the communicator's lock ---- */

/* DMA_AGAIN from `advance`: not all ranks have started. Then the start is carried out by engines. */
dma_status_t dma_starts_begin(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_starts_advance(dma_comm_t *comm, dma_task_t *task);
/* It has completed. */
void dma_starts_end(dma_comm_t *comm);

/* ---- arming ---- */

/* Takes one of the coll_dma_prelaunch places of the process. At most so many calls are armed. */
bool dma_starts_take_place(dma_proc_t *proc);
void dma_starts_give_place(dma_proc_t *proc);
/* Gives the programs of the next start to the engine, if that is allowed. */
void dma_starts_arm(dma_comm_t *comm);
/* The same behind a start that has done all it had to do, unless they would disturb the run in progress. Takes the lock. */
void dma_starts_prepare_next(dma_comm_t *comm);
/* Takes armed programs back: always, and if they have waited for longer than coll_dma_armed_seconds for a start. */
void dma_starts_disarm(dma_comm_t *comm);
void dma_starts_disarm_expired(dma_comm_t *comm);

/* ---- the end ---- */

/* This rank gives its buffers back. `streams`: a stream has starts that have not ended. dma_starts_push_on, for others, is in dma/comm.h. */
void dma_starts_stop(dma_comm_t *comm, bool streams);
/* No stream waits for words of the communicator any more. */
void dma_starts_destroy(dma_comm_t *comm);

#endif
