/*
 * Queues of libmpix_dma, which uses nothing of MPI except its public functions.
 *
 *      thread of the program            stream                      who carries out: library's thread, or callers
 *      enqueue START, number 7   --->   write 7 to `reached`  --->   reached >= 7: MPI_Start
 *      enqueue WAITALL, number 8 --->   wait for `done` >= 8  <---   all requests started before are complete: done = 8
 *
 * Invariants:
 *   - Operations have numbers in the order in which they are enqueued. `order` is held while an operation is put into the
 *     stream and into the list, so that both have the same order.
 *   - One agent carries operations out: the library's thread if there is one, otherwise the callers, one at a time because
 *     MPI allows no more. It alone takes operations out of the list and calls MPI for them, without a lock.
 *   - Nothing is allocated for an operation after it is in the list, so carrying it out fails only if MPI does.
 *   - A host function of a stream could not take the place of the stream's wait. It would hold up the one thread that the
 *     runtime has for them, and two ranks that wait for two queues in different orders would never end.
 *   - The two words outlive the queue: the stream may look at `done` later than the queue is free. Other queues use them again,
 *     and their numbers go on where they were, so that a late look finds what it waits for.
 */
#ifndef MPIX_QUEUE_H
#define MPIX_QUEUE_H

#include <mpix_dma.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stream.h"

typedef enum mpix_kind { MPIX_START, MPIX_WAITALL } mpix_kind_t;

typedef struct mpix_operation {
    struct mpix_operation *next;
    mpix_kind_t kind;
    uint64_t number;
    int count, left;        /* of a start: requests, and those that are not complete */
    MPI_Request requests[]; /* MPI_REQUEST_NULL: complete */
} mpix_operation_t;

struct MPIX_Queue_s {
    MPIX_Queue next;
    mpix_stream_t stream;

    /* Of those who enqueue. */
    pthread_mutex_t order;
    uint64_t number;    /* of the last operation */
    MPI_Request *since; /* enqueued since the last waitall */
    int nsince, room;

    /* With the lock of all queues. */
    mpix_operation_t *head, **tail; /* not carried out yet */
    int unfinished;                 /* operations, in the list or under way */
    int error;                      /* the first, or MPI_SUCCESS */
    bool busy;                      /* somebody carries it out at the moment */
    bool leaving;                   /* somebody waits until it is not busy */
    bool broken;                    /* its stream has failed: starts do not wait for it any longer */

    /* Of whoever carries out. */
    mpix_operation_t *active; /* starts under way */
};

/* Prepares the library in the first call, with its thread if MPI allows for one. An MPI error class. */
int mpix_agent_begin(void);
bool mpix_agent_has_thread(void);
/* There is something new for its thread to look at. */
void mpix_agent_wake(void);
void mpix_agent_add(MPIX_Queue queue);
/* The queue is in no list any more. It has nothing to do. */
void mpix_agent_remove(MPIX_Queue queue);
void mpix_agent_append(MPIX_Queue queue, mpix_operation_t *operation);
/* Carries out what can be done now, of all queues, if there is no thread for it. */
void mpix_agent_turn(void);
/* Until the queue has nothing to do. */
void mpix_agent_drain(MPIX_Queue queue);
/* The first error since the last call. */
int mpix_agent_take_error(MPIX_Queue queue);

#endif
