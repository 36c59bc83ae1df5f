/*
 * Queues of libmpix_dma. They use public functions of MPI only.
 *
 *      thread of the program            stream                      agent: the library's thread, or a caller
 *      enqueue START, number 7   --->   write 7 to `reached`  --->   reached >= 7: MPI_Start
 *      enqueue WAITALL, number 8 --->   wait for `done` >= 8  <---   all requests started before are complete: done = 8
 *
 * A start that the stream makes by itself (in_stream.h) is no operation. It takes effect when it is enqueued.
 *
 * Invariants:
 *   - Operations are numbered in the order in which they are enqueued. The lock `order` is held while an operation is enqueued
 *     in the stream and appended to the list, so that both have the same order.
 *   - One agent (agent.h) carries out operations. Only the agent removes them from the list and calls MPI for them. It holds no
 *     lock during a call of MPI.
 *   - Nothing is allocated for an operation after it is in the list. So carrying it out fails only if MPI fails.
 *   - The stream itself waits, not a host function in the stream. The runtime has one thread for all host functions. If one of
 *     them waited there, two ranks that wait for two queues in different orders would wait for ever.
 *   - The two words outlive the queue, because the stream may read `done` after the queue was freed. Other queues use the words
 *     again, and their numbers continue, so that such a late read finds a number that is large enough.
 */
#ifndef MPIX_QUEUE_H
#define MPIX_QUEUE_H

#include <mpix_dma.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "in_stream.h"
#include "stream.h"

typedef enum mpix_kind { MPIX_START, MPIX_WAITALL } mpix_kind_t;

typedef struct mpix_operation {
    struct mpix_operation *next;
    mpix_kind_t kind;
    uint64_t number;
    int count, left;        /* of a start: its requests, and how many are not complete */
    MPI_Request requests[]; /* MPI_REQUEST_NULL: complete */
} mpix_operation_t;

struct MPIX_Queue_s {
    MPIX_Queue next;
    mpix_stream_t stream;

    /* Of the functions that enqueue. */
    pthread_mutex_t order;
    uint64_t number;   /* of the last operation */
    mpix_list_t since; /* enqueued since the last waitall */
    mpix_in_stream_t in_stream;
    bool listed; /* some of `since` are in the list */

    /* With the lock of all queues. */
    mpix_operation_t *head, **tail; /* the list of operations that have not begun */
    int unfinished;                 /* operations in the list or under way */
    int error;                      /* the first, or MPI_SUCCESS */
    bool busy;                      /* an agent carries out its operations */
    bool leaving;                   /* MPIX_Queue_free waits until it is not busy */
    bool watched;                   /* its stream makes starts, so the agent makes progress of MPI now and then */

    bool broken; /* atomic: its stream has failed, so starts no longer wait for it */

    /* Of the agent. */
    mpix_operation_t *active; /* starts under way */
};

/* queue_work.c: the list of queues, and what the agent does for them. */

/* Returns an MPI error code. */
int mpix_queues_begin(void);
void mpix_queues_add(MPIX_Queue queue);
/* Takes a queue without operations out of the list, and waits until no agent uses it. */
void mpix_queues_remove(MPIX_Queue queue);
void mpix_queue_append(MPIX_Queue queue, mpix_operation_t *operation);
/* With the lock `order`. */
void mpix_queue_watch(MPIX_Queue queue);
/* Waits until all operations are complete. */
void mpix_queue_drain(MPIX_Queue queue);
/* Waits until everything that was enqueued is complete; keeps errors. `gone`: the program may have destroyed the stream. */
void mpix_queue_complete(MPIX_Queue queue, bool gone);
/* Returns the first error since the last call, and clears it. */
int mpix_queue_take_error(MPIX_Queue queue);

#endif
