/*
 * When the streams of a traced communicator get to their copies, and when they have done them, by the clock of the device.
 * Other communicators have no timed events, and pay one comparison for each stream of a run.
 *
 * A stream gets one timed event in front of its copies and one behind the lines that report them. Between copies and lines the
 * second event would delay the lines by 3 us on a H100. So it may be reached a moment after the lines are seen, and the times
 * include the writing of the lines. The copy of an own block that is launched early has its event at once, because its line
 * comes much later.
 *
 *     before, copies ..., lines, after
 *
 * The first event also wakes the stream up: the time until it is reached is that of the engine's waking up, or of the work of
 * others in front of it. What the copies themselves take to begin lies between the two events.
 *
 * All of this takes some 5 us of the core, and 2 us of the streams, on a H100. So only some runs get stamps, unless all are
 * wanted: every 16th run in the mean, and those that begin long after the run before them. The choice of
 * every 16th run depends on the number of the run alone, so that it is the same on all ranks, as each rank that is slower makes all
 * slower. It is not every 16th run exactly, which could always be the same call of a program's loop.
 *
 * The runtime says how far two events are apart, as a float in milliseconds: exact to 60 ns for a second, to 4 us for a minute.
 * So a unit's clock counts from an event that is near. The event in front of a run becomes that one if the last one is
 * RENEW_NS older. A pause without any run of S seconds shifts the clock by up to 0.06 us * S.
 *
 * Runs alone relate this clock badly to that of the host. An event is not reached before it was recorded, and its lines are not
 * seen before it was reached; between the two bounds lie the waking up of the stream and all copies. If each run wakes up late,
 * no bound shows it, and the middle between the bounds hides half of it. So the clocks are also related by bursts of events
 * without copies. The first event of a burst wakes the stream up, and the core waits for it. The next ones are recorded at once
 * behind each other: each of them is reached soon after it was recorded, which gives the close bound on one side. The core waits
 * for the last one and does nothing else, which gives the close bound on the other side.
 */
#ifndef DMA_STREAM_STAMPS_H
#define DMA_STREAM_STAMPS_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/clock.h"
#include "engine/gpu.h"
#include "gpu/runtime.h"

/* The streams of a unit. */
typedef enum dma_stream_which { DMA_STREAM_PUSHES, DMA_STREAM_OWN, DMA_STREAMS } dma_stream_which_t;

enum { DMA_STREAM_BURST = 4 }; /* events */

/* Of a unit, with its lock. */
typedef struct dma_stream_clock {
    dma_gpu_event_t *zero; /* NULL: no time has been read yet */
    double zero_ns;
    dma_gpu_event_t *burst[DMA_STREAM_BURST]; /* NULL: not made yet */
} dma_stream_clock_t;

/* Of a binding. */
typedef struct dma_stream_stamps {
    const dma_gpu_runtime_t *rt; /* NULL: not wanted, or the runtime cannot */
    dma_gpu_event_t *before[DMA_STREAMS], *after[DMA_STREAMS];
    bool given[DMA_STREAMS]; /* both events are on the stream, for the last run */
    bool early;              /* then: the copy on DMA_STREAM_OWN was launched before the peers had entered */
    bool broken;             /* an event could not be made or recorded */
    bool all;                /* every run gets stamps */
    bool on;                 /* this run does */
    bool chosen;             /* the next run has been looked at, because its early copy was launched */
    uint32_t runs;
    double last; /* dma_now() when the last run began */
} dma_stream_stamps_t;

void dma_stream_clock_destroy(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt);

/* Relates the clock to that of the host by bursts on this stream, whose earlier work may still be in progress. In scope. False:
 * there was no burst whose events could be made, recorded, reached in time and read. */
bool dma_stream_clock_relate(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream,
                             dma_gpu_moment_t *moment);

static inline void dma_stream_stamps_init(dma_stream_stamps_t *stamps, const dma_gpu_runtime_t *rt, bool wanted,
                                          bool all)
{
    *stamps = (dma_stream_stamps_t){.rt = wanted && rt->event_elapsed ? rt : NULL, .all = all};
}

/* The next run is about to get its first copy: does it get stamps? */
void dma_stream_stamps_choose(dma_stream_stamps_t *stamps, double now);

/* A run begins; `early`: its copy on DMA_STREAM_OWN has been launched. */
static inline void dma_stream_stamps_begin(dma_stream_stamps_t *stamps, bool early)
{
    if (stamps->rt) {
        dma_stream_stamps_choose(stamps, dma_now());
        stamps->chosen = false;
    }
    stamps->given[DMA_STREAM_PUSHES] = false;
    stamps->given[DMA_STREAM_OWN] &= early;
    stamps->early = early;
}

/* All below in scope. The first two do nothing if the run gets no stamps. An event that cannot be made or recorded ends them for
 * this binding, without an error: what is wrong with the stream, its copies will show. */
void dma_stream_stamps_put_before(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream);
void dma_stream_stamps_put_after(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream);
void dma_stream_stamps_destroy(dma_stream_stamps_t *stamps);

/* The two times of a stream that has been given both events, in units of 10 ns. The lines behind them have been seen. False:
 * the runtime does not say. With the unit's lock. */
bool dma_stream_stamps_read(dma_stream_stamps_t *stamps, dma_stream_clock_t *clock, dma_stream_which_t which,
                            uint64_t ticks[2]);

#endif
