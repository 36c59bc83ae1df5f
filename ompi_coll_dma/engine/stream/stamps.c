/* Times of streams: see stamps.h. */
#include "engine/stream/stamps.h"

#include "dma/clock.h"
#include "node/pause.h"
#include "trace/trace.h"

#define RENEW_NS   250e6
#define FIRST_NS   1e9  /* the time of the first event: no other one is before 0 */
#define TICK_NS    10.0 /* as the engines' clocks in traces have it */
#define BURSTS     8
#define LONG_AFTER 300e-6 /* seconds after the run before: there stamps are not noticed */
#define MOST_DELAY 0.05   /* seconds in which a runtime notices an event that has been reached */

void dma_stream_clock_destroy(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt)
{
    if (clock->zero) {
        (void)rt->event_destroy(clock->zero);
        clock->zero = NULL;
    }
    for (int i = 0; i < DMA_STREAM_BURST; i++) {
        if (clock->burst[i]) {
            (void)rt->event_destroy(clock->burst[i]);
            clock->burst[i] = NULL;
        }
    }
}

void dma_stream_stamps_destroy(dma_stream_stamps_t *stamps)
{
    for (int i = 0; i < DMA_STREAMS && stamps->rt; i++) {
        if (stamps->before[i]) {
            (void)stamps->rt->event_destroy(stamps->before[i]);
        }
        if (stamps->after[i]) {
            (void)stamps->rt->event_destroy(stamps->after[i]);
        }
    }
    stamps->rt = NULL;
}

/* One of 16 numbers. */
static bool is_chosen(uint32_t number)
{
    return (number * UINT32_C(2654435769)) >> 28 == 0;
}

void dma_stream_stamps_choose(dma_stream_stamps_t *stamps, double now)
{
    if (!stamps->chosen) {
        stamps->on = stamps->all || is_chosen(stamps->runs) || now - stamps->last >= LONG_AFTER;
        stamps->last = now;
        stamps->runs++;
        stamps->chosen = true;
    }
}

static bool put(dma_stream_stamps_t *stamps, dma_gpu_event_t **event, dma_gpu_stream_t *stream)
{
    if (!*event && stamps->rt->event_create_timed(event) != DMA_OK) {
        *event = NULL;
        stamps->broken = true;
        return false;
    }
    stamps->broken = stamps->rt->event_record(*event, stream) != DMA_OK;
    return !stamps->broken;
}

void dma_stream_stamps_put_before(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream)
{
    stamps->given[which] = false;
    if (stamps->rt && stamps->on && !stamps->broken) {
        (void)put(stamps, &stamps->before[which], stream);
    }
}

void dma_stream_stamps_put_after(dma_stream_stamps_t *stamps, dma_stream_which_t which, dma_gpu_stream_t *stream)
{
    if (stamps->rt && stamps->on && !stamps->broken) {
        stamps->given[which] = put(stamps, &stamps->after[which], stream);
    }
}

/* The engine has reached both events; the runtime may notice that later. */
static bool elapsed(const dma_gpu_runtime_t *rt, dma_gpu_event_t *from, dma_gpu_event_t *to, double *ns)
{
    double until = dma_now() + MOST_DELAY;
    dma_pause_t pause = {0};
    dma_status_t status;

    while ((status = rt->event_elapsed(from, to, ns)) == DMA_AGAIN && dma_now() < until) {
        dma_pause(&pause);
    }
    return status == DMA_OK;
}

static void set_zero(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_event_t *event, double ns)
{
    if (clock->zero) {
        (void)rt->event_destroy(clock->zero);
    }
    clock->zero = event;
    clock->zero_ns = ns;
}

/* ---- the clock of the host ---- */

/* The clock counts from a new event, which is as near to the bursts as it can be. */
static bool renew_zero(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream)
{
    dma_gpu_event_t *event;
    double since = 0;

    if (rt->event_create_timed(&event) != DMA_OK) {
        return false;
    }
    if (rt->event_record(event, stream) != DMA_OK || (clock->zero && !elapsed(rt, clock->zero, event, &since))) {
        (void)rt->event_destroy(event);
        return false;
    }
    set_zero(clock, rt, event, clock->zero ? clock->zero_ns + since : FIRST_NS);
    return true;
}

static bool make_burst(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt)
{
    for (int i = 0; i < DMA_STREAM_BURST; i++) {
        if (!clock->burst[i] && rt->event_create_timed(&clock->burst[i]) != DMA_OK) {
            clock->burst[i] = NULL;
            return false;
        }
    }
    return true;
}

/* The clock of the host less ours, in ns, lies between these. */
typedef struct clock_bounds {
    double least, most;
} clock_bounds_t;

/* Records an event; *at: when, by the clock of the host. */
static bool record(const dma_gpu_runtime_t *rt, dma_gpu_event_t *event, dma_gpu_stream_t *stream, uint64_t *at)
{
    *at = dma_trace_now();
    return rt->event_record(event, stream) == DMA_OK;
}

static bool run_burst(const dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream,
                      clock_bounds_t *b, double *last)
{
    uint64_t recorded[DMA_STREAM_BURST];
    double seen;

    if (!record(rt, clock->burst[0], stream, &recorded[0]) || !elapsed(rt, clock->zero, clock->burst[0], last)) {
        return false;
    }
    for (int i = 1; i < DMA_STREAM_BURST; i++) {
        if (!record(rt, clock->burst[i], stream, &recorded[i])) {
            return false;
        }
    }
    if (!elapsed(rt, clock->zero, clock->burst[DMA_STREAM_BURST - 1], last)) {
        return false;
    }
    seen = (double)dma_trace_now();
    *last += clock->zero_ns;
    b->most = seen - *last < b->most ? seen - *last : b->most;
    for (int i = 0; i < DMA_STREAM_BURST; i++) {
        double since, least;

        if (!elapsed(rt, clock->zero, clock->burst[i], &since)) {
            return false;
        }
        least = (double)recorded[i] - clock->zero_ns - since;
        b->least = least > b->least ? least : b->least;
    }
    return true;
}

bool dma_stream_clock_relate(dma_stream_clock_t *clock, const dma_gpu_runtime_t *rt, dma_gpu_stream_t *stream,
                             dma_gpu_moment_t *moment)
{
    clock_bounds_t b = {-1e300, 1e300};
    double ns = 0, last, low, high;
    int bursts = 0;

    if (!renew_zero(clock, rt, stream) || !make_burst(clock, rt)) {
        return false;
    }
    while (bursts < BURSTS && run_burst(clock, rt, stream, &b, &last)) {
        ns = last;
        bursts++;
    }
    /* the runtime counts in steps: close bounds may cross by less than one */
    low = b.least < b.most ? b.least : b.most;
    high = b.least < b.most ? b.most : b.least;
    if (!bursts || ns < 0 || ns + low < 0) {
        return false;
    }
    *moment = (dma_gpu_moment_t){
        .ticks = (uint64_t)(ns / TICK_NS), .earliest = (uint64_t)(ns + low), .latest = (uint64_t)(ns + high)};
    return true;
}

/* ---- runs ---- */

bool dma_stream_stamps_read(dma_stream_stamps_t *stamps, dma_stream_clock_t *clock, dma_stream_which_t which,
                            uint64_t ticks[2])
{
    double since = 0, length, begin;

    if (!stamps->given[which]) {
        return false;
    }
    stamps->given[which] = false;
    if (!elapsed(stamps->rt, stamps->before[which], stamps->after[which], &length) ||
        (clock->zero && !elapsed(stamps->rt, clock->zero, stamps->before[which], &since))) {
        return false;
    }
    begin = clock->zero ? clock->zero_ns + since : FIRST_NS;
    if (length < 0 || begin < 0) {
        return false;
    }
    if (!clock->zero || since > RENEW_NS) {
        set_zero(clock, stamps->rt, stamps->before[which], begin);
        stamps->before[which] = NULL;
    }
    ticks[0] = (uint64_t)(begin / TICK_NS);
    ticks[1] = (uint64_t)((begin + length) / TICK_NS);
    return true;
}
