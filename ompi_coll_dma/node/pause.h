/*
 * The pause between two looks of a wait whose core others may need.
 *
 * Where ranks outnumber cores, a short wait yields: the rank that it waits for may need this core, and runs at once. In a
 * long wait that is wrong. sched_yield leaves the thread on the core's run queue. So ranks that yield in turn burn the time
 * that a quota or a neighbour has, and Linux 6.18 was seen to run nothing else beside them for a minute. So a wait in which
 * nothing has moved for some time sleeps: a thirty-second of the time waited, at most 5 ms (the kernel adds some 50 us).
 * So the sleeper is late by a few per cent of its wait, and what comes from outside of this wait, for example a message of
 * another communicator, is seen after 5 ms at most, plus the time until the kernel gives the thread its core.
 *
 * A wait may not sleep for 0.2 ms again and again. A thread that wakes preempts what runs, and a look with its system calls
 * takes some 17 us of a crowded core. So 32 waiting ranks on a core, each of which looks four thousand times a second, take
 * all of it, and the rank that they wait for gets a thirtieth: with 64 ranks on two cores a set-up that takes a second of
 * processor time took 30 seconds of it.
 *
 * Waits count turns, for example between two looks for evidence of a failure. A turn that has slept counts as one for each 0.2
 * ms (dma_pause_t.turns), so that what is looked for every so many turns is found about as soon.
 *
 * Where every rank has a core, a wait spins. If others use the core, it sleeps after a tenth of a millisecond. A thread
 * that spins is preempted by them, and its time slice is over when its peer comes. One that yields gives away its slice,
 * some milliseconds, although its peer may come at once. One that has slept is preferred by the kernel when it wakes.
 * Whether others use the core is known from the kernel's count of how often it ran something else in the thread's place
 * (involuntary context switches; a yield that lets another thread run counts too).
 */
#ifndef DMA_NODE_PAUSE_H
#define DMA_NODE_PAUSE_H

#include <stdbool.h>
#include <stdint.h>

/* Of one wait; all 0 at its begin. */
typedef struct dma_pause {
    double since;      /* the first pause since something has moved; 0: none so far */
    uint64_t position; /* of the last dma_pause_moved */
    unsigned turns;    /* for how many more turns the next look stands, because of a sleep */
} dma_pause_t;

/* Yields, or sleeps after 2 ms. true: it slept. */
bool dma_pause(dma_pause_t *pause);
/* Sleeps if the wait has lasted 0.1 ms and others use this core; else it does nothing. true: it slept. */
bool dma_pause_shared(dma_pause_t *pause);

/* `position` changes when something moves. Then the wait is short again. */
static inline void dma_pause_moved(dma_pause_t *pause, uint64_t position)
{
    if (position != pause->position) {
        pause->position = position;
        pause->since = 0;
    }
}

/* Has a count of turns that was `before` and is `now` passed a multiple of `interval`, which is a power of two? */
static inline bool dma_turns_passed(unsigned before, unsigned now, unsigned interval)
{
    return (before ^ now) & ~(interval - 1);
}

/* The same of *count when `turns` are added to it. */
static inline bool dma_turns_count(unsigned *count, unsigned turns, unsigned interval)
{
    *count += turns;
    return dma_turns_passed(*count - turns, *count, interval);
}

#endif
