/*
 * The clock of an engine. A program cannot begin before it was submitted, and its end cannot be seen before it has ended. So
 * each run bounds the difference of the two clocks from both sides:
 *
 *     submitted - ticks at the beginning   <=   difference   <=   seen - ticks at the end
 *
 * `seen` is when the lines of the programs were seen, or where the times were read from events behind the lines, when that had
 * been done.
 * Between the two bounds lie the waking up of the engine and the copies. If an engine wakes up late in every run, no run shows
 * it, and the middle between the bounds is too early by half of that. So some engines also give moments (DMA_TRACE_MOMENT),
 * whose bounds are close, because they are measured several times and without copies:
 *
 *     earliest - ticks   <=   difference   <=   latest - ticks
 *
 * The closest bounds of all runs and moments are used, and the middle between them. Half their distance is the error. The rate
 * is 100 MHz, unless runs that are far apart show another rate: the clocks of hosts and engines differ by some millionths. The
 * middle between bounds that are far from each other moves by chance; such a move is no rate. Moments say nothing about the
 * rate, because most are at the beginning of a job.
 */
#include "tools/trace/trace.h"

#define TICK_NS   10.0
#define FAR_APART 1e9  /* ns between the first and the last run that are needed to measure the rate */
#define PARTS     10   /* part of the time: the closest bounds of the first and of the last part give the rate */
#define CHANCE    8    /* a part of the bounds' distances, by which their middles move by chance */
#define MOST_OFF  1e-2 /* rates further from 100 MHz are not plausible */

typedef struct bounds {
    double least, most;
} bounds_t;

static void add_call(bounds_t *b, const trace_call_t *call, double tick_ns)
{
    double low = (double)call->submit.first - tick_ns * (double)call->ticks.first;
    int64_t seen = call->reading ? call->told : call->line;
    double high = (double)seen - tick_ns * (double)call->ticks.last;

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

static void add_moments(bounds_t *b, const trace_file_t *file)
{
    for (size_t i = 0; i < file->n; i++) {
        const dma_trace_event_t *e = &file->events[i];

        if (e->kind == DMA_TRACE_MOMENT) {
            double ns = file->tick_ns * (double)e->b;

            b->least = (double)e->at - ns > b->least ? (double)e->at - ns : b->least;
            b->most = (double)e->a - ns < b->most ? (double)e->a - ns : b->most;
        }
    }
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

static double distance(const bounds_t *b)
{
    return b->most > b->least ? b->most - b->least : b->least - b->most;
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
        double move = middle(&late) - middle(&early), drift = move / ((double)length * (PARTS - 1) / PARTS);
        double chance = (distance(&early) + distance(&late)) / CHANCE;

        if ((move > chance || move < -chance) && drift < MOST_OFF && drift > -MOST_OFF) {
            file->tick_ns = TICK_NS / (1 - drift);
        }
    }
    all = bounds_of(file, file->tick_ns, span.first, span.last);
    add_moments(&all, file);
    file->tick_zero = middle(&all);
    file->tick_error = distance(&all) / 2;
    file->has_ticks = true;
}
