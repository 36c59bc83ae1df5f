/*
 * Events of calls, for listeners in the process. The component hands over a table where Open MPI has events of MPI_T (6.0); in a
 * build without them, DMA_HAVE_EVENTS is not defined and the calls of dma_event_... below are nothing.
 *
 * A begin is raised when a call has been posted and before it can end, an end when it has ended. A call whose begin nobody
 * could see, because no listener was there, has no end. Both are raised in a thread of the application that has called MPI: a
 * begin with the lock of the communicator held, an end when the caller is told that the call has ended. A listener must not call
 * MPI, except for what MPI_T allows there.
 *
 * Without listeners a call costs the loads of two counts at its begin, and one of its own memory at its end.
 */
#ifndef DMA_EVENTS_H
#define DMA_EVENTS_H

#include <stdint.h>

typedef enum dma_form { DMA_FORM_BLOCKING, DMA_FORM_NONBLOCKING, DMA_FORM_PERSISTENT } dma_form_t;

/* What an event says; its listeners get the members in this order. */
typedef struct dma_event {
    uint64_t communicator; /* a number that the calls of a communicator have in common in this process */
    uint64_t sequence;
    uint64_t bytes;        /* of the largest block, as this rank knows it */
    uint64_t predicted_ns; /* 0: not known */
    uint64_t ns;           /* from begin to end; at the begin 0 */
    int32_t operation;     /* dma_coll_t */
    int32_t form;          /* dma_form_t */
    int32_t
        variant;    /* of the list of variants; between nodes DMA_COUNT_VARIANTS is added; -1: none, or not known yet */
    int32_t status; /* dma_status_t; at the begin 0 */
} dma_event_t;

typedef struct dma_events {
    const volatile int32_t *begin_listeners, *end_listeners; /* how many there are */
    void (*raise_begin)(const dma_event_t *event);
    void (*raise_end)(const dma_event_t *event);
} dma_events_t;

#endif
