/*
 * The clock of an engine. A program cannot begin before it was submitted, and its end cannot be seen before it has ended. So
 * each run bounds the difference of the two clocks from both sides:
 *
 *     submitted - ticks at the beginning   <=   difference   <=   seen - ticks at the end
 *
 * The closest bounds of all runs are used, and the middle between them. The rate is 100 MHz, unless runs that are far apart
 * show another rate: the clocks of hosts and engines differ by some millionths.
 */
#include "tools/trace/trace.h"

#define TICK_NS   10.0
#define FAR_APART 1e9  /* ns between the first and the last run that are needed to measure the rate */
#define PARTS     10   /* part of the time: the closest bounds of the first and of the last part give the rate */
#define MOST_OFF  1e-2 /* rates further from 100 MHz are not plausible */

typedef struct bounds {
    double least, most;
} bounds_t;

static void add_call(bounds_t *b, const trace_call_t *call, double tick_ns)
{
    double low = (double)call->submit.first - tick_ns * (double)call->ticks.first;
    double high = (double)call->line - tick_ns * (double)call->ticks.last;

    b->least = low > b->least ? low : b->least;
    b->most = high < b->most ? high : b->most;
}

static bool is_bound(const trace_call_t *call)
{
    return call->ended && call->ticks.last && call->submit.last && call->line;
}

/* The bounds from calls that begin in this part of the time. */
static bounds_t bounds_of(const trace_file_t *file, double tick_ns, int64_t first, int64_t last)
{
    bounds_t b = {-1e300, 1e300};

    for (size_t i = 0; i < file->ncomms; i++) {
        for (size_t k = 0; k < file->comms[i].ncalls; k++) {
            const trace_call_t *call = &file->comms[i].calls[k];

            if (is_bound(call) && call->begin >= first && call->begin <= last) {
                add_call(&b, call, tick_ns);
            }
        }
    }
    return b;
}

static trace_span_t time_of(const trace_file_t *file)
{
    trace_span_t span = {0};

    for (size_t i = 0; i < file->ncomms; i++) {
        for (size_t k = 0; k < file->comms[i].ncalls; k++) {
            const trace_call_t *call = &file->comms[i].calls[k];

            if (is_bound(call)) {
                span.first = span.last && span.first < call->begin ? span.first : call->begin;
                span.last = span.last > call->begin ? span.last : call->begin;
            }
        }
    }
    return span;
}

static double middle(const bounds_t *b)
{
    return (b->least + b->most) / 2;
}

void trace_relate_ticks(trace_file_t *file)
{
    trace_span_t span = time_of(file);
    int64_t length = span.last - span.first;
    bounds_t all;

    if (!span.last) {
        return;
    }
    file->tick_ns = TICK_NS;
    if ((double)length > FAR_APART) {
        bounds_t early = bounds_of(file, TICK_NS, span.first, span.first + length / PARTS);
        bounds_t late = bounds_of(file, TICK_NS, span.last - length / PARTS, span.last);
        double drift = (middle(&late) - middle(&early)) / ((double)length * (PARTS - 1) / PARTS);

        if (drift < MOST_OFF && drift > -MOST_OFF) {
            file->tick_ns = TICK_NS / (1 - drift);
        }
    }
    all = bounds_of(file, file->tick_ns, span.first, span.last);
    file->tick_zero = middle(&all);
    file->has_ticks = true;
}
