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
 *   - One agent carries out operations: the library's thread if there is one. Otherwise it is the caller of a function of the
 *     library, one at a time, because without MPI_THREAD_MULTIPLE only one thread at a time may call MPI. Only the agent
 *     removes operations from the list and calls MPI for them. It holds no lock during a call of MPI.
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
    uint64_t number;    /* of the last operation */
    MPI_Request *since; /* enqueued since the last waitall */
    int nsince, room;
    mpix_in_stream_t in_stream;
    bool listed; /* some of `since` are in the list */

    /* With the lock of all queues. */
    mpix_operation_t *head, **tail; /* the list of operations that have not begun */
    int unfinished;                 /* operations in the list or under way */
    int error;                      /* the first, or MPI_SUCCESS */
    bool busy;                      /* an agent carries out its operations */
    bool leaving;                   /* mpix_agent_remove waits until it is not busy */
    bool broken;                    /* its stream has failed: starts no longer wait for it */

    /* Of the agent. */
    mpix_operation_t *active; /* starts under way */
};

/* The first call prepares the library, with its thread if MPI has given MPI_THREAD_MULTIPLE. Returns an MPI error class. */
int mpix_agent_begin(void);
bool mpix_agent_has_thread(void);
/* A queue has, or has no more, starts that its stream makes: the thread makes progress now and then. */
void mpix_agent_watch(bool more);
/* Partitioned requests may need more of the thread (mpix_parted_need) since the caller has stored something. Wakes it if it sleeps.
 * Not with the lock of all requests. */
void mpix_agent_notify(void);
void mpix_agent_add(MPIX_Queue queue);
/* Takes a queue without operations out of the list, and waits until no agent uses it. */
void mpix_agent_remove(MPIX_Queue queue);
void mpix_agent_append(MPIX_Queue queue, mpix_operation_t *operation);
/* Without a thread of the library: advances all queues and partitioned requests. */
void mpix_agent_turn(void);
/* Waits until all operations of the queue are complete. */
void mpix_agent_drain(MPIX_Queue queue);
/* Waits until everything that was enqueued is complete; keeps errors. `gone`: the program may have destroyed the stream. */
void mpix_queue_complete(MPIX_Queue queue, bool gone);
/* Keeps an error until somebody asks. */
void mpix_agent_keep_error(MPIX_Queue queue, int code);
/* Returns the first error since the last call, and clears it. */
int mpix_agent_take_error(MPIX_Queue queue);

#endif
