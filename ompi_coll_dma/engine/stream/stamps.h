/*
 * When the streams of a traced communicator get to their copies, and when they have done them, by the clock of the device.
 * Other communicators have no timed events, and pay one comparison for each stream of a run.
 *
 * A stream gets one timed event in front of its copies and one behind them, before the lines that report the copies. So both
 * have been reached when the lines are seen.
 *
 *     before, copies ..., after, lines
 *
 * The first event also wakes the stream up: the time until it is reached is that of the engine's waking up, or of the work of
 * others in front of it. What the copies themselves take to begin lies between the two events.
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
} dma_stream_stamps_t;

void dma_stream_clock_destroy(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt);

/* Relates the clock to that of the host by bursts on this stream, whose earlier work may still be in progress. In scope. False:
 * there was no burst whose events could be made, recorded, reached in time and read. */
bool dma_stream_clock_relate(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream,
                             dma_gpu_moment_t *moment);

static inline void dma_stream_stamps_init(dma_stream_stamps_t *stamps, const dma_gpu_runtime_t *rt, bool wanted)
{
    *stamps = (dma_stream_stamps_t){.rt = wanted && rt->event_elapsed ? rt : NULL};
}

/* A run begins; `early`: its copy on DMA_STREAM_OWN has been launched. */
static inline void dma_stream_stamps_begin(dma_stream_stamps_t *stamps, bool early)
{
    stamps->given[DMA_STREAM_PUSHES] = false;
    stamps->given[DMA_STREAM_OWN] &= early;
    stamps->early = early;
}

/* All below in scope. The first two do nothing if stamps are not wanted. An event that cannot be made or recorded ends them for
 * this binding, without an error: what is wrong with the stream, its copies will show. */
void dma_stream_stamps_put_before(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream);
void dma_stream_stamps_put_after(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream);
void dma_stream_stamps_destroy(dma_stream_stamps_t *stamps);

/* The two times of a stream that has been given both events, in units of 10 ns. The lines behind them have been seen. False:
 * the runtime does not say. With the unit's lock. */
bool dma_stream_stamps_read(dma_stream_stamps_t *stamps, dma_stream_clock_t *clock, dma_stream_which_t which,
                            uint64_t ticks[2]);

#endif
