/* Yielding, sleeping, and whether others use this core: see pause.h. */
#include "node/pause.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include "dma/clock.h"

#define YIELD_SECONDS  0.002  /* waits that yield do so for this time, and then sleep */
#define SPIN_SECONDS   0.0001 /* waits that spin do so for this time if others use the core */
#define SLEEP_PART     32     /* of the time waited */
#define SLEEP_SECONDS  0.005  /* at most */
#define TURN_SECONDS   0.0002 /* of a sleep count as a turn */
#define JUDGE_SECONDS  0.01   /* between two judgements */
#define SWITCHES_A_SEC 100    /* of this thread's processor time: a time slice is 3 to 6 ms; daemons cause fewer */

/* How long the wait has lasted. */
static double lasted(dma_pause_t *pause)
{
    double now = dma_now();

    if (!pause->since) {
        pause->since = now;
    }
    return now - pause->since;
}

static bool sleep_part(dma_pause_t *pause, double waited)
{
    double part = waited / SLEEP_PART, seconds = part < SLEEP_SECONDS ? part : SLEEP_SECONDS;

    pause->turns = (unsigned)(seconds / TURN_SECONDS);
    nanosleep(&(struct timespec){.tv_nsec = (long)(seconds * 1e9)}, NULL);
    return true;
}

bool dma_pause(dma_pause_t *pause)
{
    double waited = lasted(pause);

    if (waited < YIELD_SECONDS) {
        sched_yield();
        return false;
    }
    return sleep_part(pause, waited);
}

static double seconds_of(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* Do others use the calling thread's core? Judged every 10 ms, from the time since the last judgement. */
static bool core_is_shared(void)
{
    static _Thread_local struct {
        double at, used;
        long switches;
        bool shared;
    } last;
    double now = dma_now(), used;
    struct rusage usage;

    if (now - last.at < JUDGE_SECONDS || getrusage(RUSAGE_THREAD, &usage) != 0) {
        return last.shared;
    }
    used = seconds_of(&usage);
    last.shared = last.at > 0 && (double)(usage.ru_nivcsw - last.switches) > SWITCHES_A_SEC * (used - last.used);
    last.at = now;
    last.used = used;
    last.switches = usage.ru_nivcsw;
    return last.shared;
}

bool dma_pause_shared(dma_pause_t *pause)
{
    double waited = lasted(pause);

    return waited > SPIN_SECONDS && core_is_shared() && sleep_part(pause, waited);
}
