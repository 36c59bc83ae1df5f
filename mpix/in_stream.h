/*
 * Starts that the stream of a queue makes by itself: coll/dma puts all that they need into the stream (dma/in_stream.h). Then no
 * thread makes calls of MPI for them, and the host waits for nothing.
 *
 * A queue uses this if the user allows it (MPIX_DMA_IN_STREAM=1), the stream is one of CUDA that was created as non-blocking, and
 * coll/dma is loaded. coll/dma decides for each start whether it can be made so; the others take the way of queue.h. On each rank,
 * all starts of a queue take effect in the order of the calls, whichever way they take.
 *
 * A connection of the device has room for about a thousand operations. A call of the runtime that fills it waits, and progress of MPI
 * may be what it waits for. So a start waits here first until the stream has no more than MPIX_MOST_AHEAD operations of such starts
 * ahead of it.
 *
 * If the stream waits for the library's thread, a start that coll/dma cannot make is left to the thread, which calls MPI_Start and
 * MPI_Test at any time from then on. So nobody asks coll/dma about this request before all operations of the queue are complete: its
 * state is the thread's, and its starts stay in order. If the stream does not wait, the host waits for such a start in the waitall.
 *
 * A request whose starts the stream has is active until MPIX_Queue_wait. If a rank fails, progress of MPI finds it, and lets the
 * stream go on. So whoever waits for the stream here makes calls of MPI, and so does the library's thread now and then.
 */
#ifndef MPIX_IN_STREAM_H
#define MPIX_IN_STREAM_H

#include <mpix_dma.h>
#include <stdbool.h>

#include "dma/in_stream.h"
#include "stream.h"

/* A list of requests. */
typedef struct mpix_list {
    MPI_Request *at;
    int n, room;
} mpix_list_t;

/* Makes room for so many more. False: no memory, and nothing has changed. */
bool mpix_list_has_room(mpix_list_t *list, int more);
bool mpix_list_has(const mpix_list_t *list, MPI_Request request);

enum { MPIX_RECENT = 128, MPIX_MOST_AHEAD = 400 };

/* A start that the stream has not reached, as far as is known. */
typedef struct mpix_recent {
    MPI_Request request;
    dma_in_stream_started_t started;
} mpix_recent_t;

typedef struct mpix_in_stream {
    const dma_in_stream_t *component; /* NULL: it is not used */
    dma_app_stream_t stream;
    mpix_list_t all;  /* whose starts the stream has */
    mpix_list_t left; /* left to the thread since the queue was complete */
    mpix_recent_t recent[MPIX_RECENT];
    unsigned oldest, nrecent, ahead; /* of `recent`; ahead: their operations */
    bool touched;                    /* a start has failed, and the stream may have a part of it */
    bool told;                       /* the user knows that the host waits for some starts */
} mpix_in_stream_t;

void mpix_in_stream_open(mpix_in_stream_t *s, const mpix_stream_t *stream);
/* No requests are left. May be called again; MPI_Finalize unloads the component. */
void mpix_in_stream_close(mpix_in_stream_t *s);

/* *served: the stream has the start. Else it has to be made in another way. Returns an MPI error class. */
int mpix_in_stream_start(mpix_in_stream_t *s, const mpix_stream_t *stream, MPI_Request request, bool *served);
/* Later work of the stream waits for each start anyway. Returns an error if it is known that one of them has failed. */
int mpix_in_stream_waitall(mpix_in_stream_t *s);
/* Whoever waits for streams calls this again and again. Progress of MPI finds ranks that have failed, and streams do not wait for
 * requests that have failed. */
void mpix_in_stream_watch(void);
/* Has any queue been able to leave starts to its stream? Then any stream may be behind one that waits for another rank, so whoever waits
 * for a stream makes calls of MPI. */
bool mpix_in_stream_is_used(void);
/* Waits until the stream has done everything that was put into it. False: it has failed. */
bool mpix_in_stream_settle(const mpix_stream_t *stream);
/* Waits until the stream has done everything, and makes all requests inactive. If the stream may be `gone`, because the program has
 * destroyed it, it is not used, and other work that it has is not waited for. */
int mpix_in_stream_finish(mpix_in_stream_t *s, const mpix_stream_t *stream, bool gone);

#endif
