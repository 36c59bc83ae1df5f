/*
 * The phases of a call on one rank, after the paper DMA-Latte:
 *
 *     control       this rank's core: argument checks, the choice of a plan, staging, commands into a queue
 *     schedule      from the last doorbell until the engine begins
 *     copy          until the last command of this rank has ended; of cores: the time in copies
 *     synchronise   all waiting for others, at the beginning ("meeting") and at the end
 *
 *          begin     entered        met       submit          engine                        end
 *     GPU    |control|<-meeting, -->|control  |   |schedule|     copy    |<- synchronise -->|
 *                       synchronise
 *
 * The clock of an engine says when it began and ended. Without it, copies begin when they were submitted, and end when the
 * core sees that; then schedule is 0, and is part of `copy`. A copy that was launched while the rank waited for others
 * counts only if it ends last. Between nodes a message counts as a copy from the time at which its sender posted it, and a
 * step inside the node counts for its whole duration.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

static double positive(int64_t ns)
{
    return ns > 0 ? (double)ns : 0;
}

/* ---- one call ---- */

static void phases_of_cores(trace_call_t *call)
{
    trace_phases_t *p = &call->phases;
    int64_t plan = call->plan ? call->plan : call->begin;

    p->control = positive(plan - call->begin);
    p->copy = (double)call->busy;
    p->synchronise = positive(call->end - plan - call->busy);
    p->meeting = call->met ? positive(call->met - plan - call->busy_before_met) : 0;
    p->meeting =
        p->meeting < p->synchronise ? p->meeting : p->synchronise; /* copies of the same turn may come before */
}

static void phases_of_engine(const trace_file_t *file, trace_call_t *call)
{
    trace_phases_t *p = &call->phases;
    int64_t submit = call->submit.first, submitted = call->submit.last, began = submitted, ended = call->line;
    int64_t entered = call->armed || !call->entered ? submit : call->entered;

    if (trace_has_times(file, call)) {
        began = trace_tick_time(file, call->ticks.first);
        ended = trace_tick_time(file, (uint64_t)(call->early > call->ticks.last ? call->early : call->ticks.last));
        /* The clock is known to some us, and the event behind the copies may be reached after their lines have been seen. */
        ended = ended < call->end ? ended : call->end;
        began = began < ended ? began : ended;
    }
    p->meeting = call->armed || !call->met ? 0 : positive(call->met - entered);
    p->control =
        positive(entered - call->begin) + positive(submitted - (call->met && !call->armed ? call->met : entered));
    p->schedule = positive(began - submitted);
    p->copy = positive(ended - (began > submitted ? began : submitted));
    p->synchronise = p->meeting + positive(call->end - (ended > submitted ? ended : submitted));
}

static void phases_of_network(trace_call_t *call)
{
    trace_phases_t *p = &call->phases;
    int64_t plan = call->plan ? call->plan : call->begin;

    p->control = positive(plan - call->begin);
    p->copy = (double)call->moving;
    p->synchronise = positive(call->end - plan - call->moving);
    p->meeting = call->net.last ? positive(call->net.first - plan) : 0;
}

/* ---- messages and steps inside the node: the time in which any is under way ---- */

typedef struct interval {
    trace_call_t *call;
    int64_t first, last;
} interval_t;

typedef struct intervals {
    interval_t *list;
    size_t n;
} intervals_t;

static void add_interval(intervals_t *in, trace_call_t *call, int64_t first, int64_t last)
{
    if (in->n % 1024 == 0) {
        interval_t *more = realloc(in->list, (in->n + 1024) * sizeof(*more));

        if (!more) {
            return;
        }
        in->list = more;
    }
    first = first > call->begin ? first : call->begin;
    if (last > first) {
        in->list[in->n++] = (interval_t){.call = call, .first = first, .last = last};
    }
}

static int compare_intervals(const void *a, const void *b)
{
    const interval_t *i = a, *k = b;

    return i->call != k->call ? (i->call > k->call) - (i->call < k->call)
                              : (i->first > k->first) - (i->first < k->first);
}

/* Adds the time that no earlier interval of the call covers. `net` encloses all of them. */
static void add_moving(const interval_t *i)
{
    trace_call_t *call = i->call;
    int64_t first = call->net.last > i->first ? call->net.last : i->first;

    call->moving += i->last > first ? i->last - first : 0;
    call->net.first = call->net.last ? call->net.first : i->first;
    call->net.last = call->net.last > i->last ? call->net.last : i->last;
}

static void compute_moving(trace_set_t *set, const trace_messages_t *messages)
{
    intervals_t in = {0};

    for (size_t i = 0; i < messages->nrecvs; i++) {
        const trace_message_t *m = &messages->recvs[i];
        const trace_file_t *file = &set->files[m->file];
        trace_call_t *call = trace_call_of(file, m->event);
        int64_t awaited = trace_time(file, m->event->at);

        if (call) {
            int64_t first = m->sent > awaited ? m->sent : awaited;

            add_interval(&in, call, first - file->offset, (int64_t)m->event->b);
        }
    }
    for (size_t f = 0; f < set->n; f++) {
        for (size_t i = 0; i < set->files[f].n; i++) {
            const dma_trace_event_t *event = &set->files[f].events[i];
            trace_call_t *call = trace_call_of(&set->files[f], event);

            if (call && (event->kind == DMA_TRACE_SEND || event->kind == DMA_TRACE_LOCAL)) {
                add_interval(&in, call, (int64_t)event->at, (int64_t)event->b);
            }
        }
    }
    if (in.n) {
        qsort(in.list, in.n, sizeof(*in.list), compare_intervals);
    }
    for (size_t i = 0; i < in.n; i++) {
        add_moving(&in.list[i]);
    }
    free(in.list);
}

static void compute_call(const trace_file_t *file, trace_call_t *call)
{
    if (call->by == DMA_TRACE_NETWORK) {
        phases_of_network(call);
    } else if (call->by == DMA_TRACE_GPU_ENGINE && call->submit.last) {
        phases_of_engine(file, call);
    } else {
        phases_of_cores(call);
    }
}

void trace_compute_phases(trace_set_t *set, const trace_messages_t *messages)
{
    compute_moving(set, messages);
    for (size_t i = 0; i < set->n; i++) {
        trace_relate_ticks(&set->files[i]);
        for (size_t k = 0; k < set->files[i].ncomms; k++) {
            for (size_t c = 0; c < set->files[i].comms[k].ncalls; c++) {
                compute_call(&set->files[i], &set->files[i].comms[k].calls[c]);
            }
        }
    }
}
