/*
 * Communicators and calls of a file. One pass counts them, so that memory is allocated for as many as the file has events
 * about. No number in an event determines an allocation. Then both are sorted by their numbers, and found by binary search.
 *
 * Events end at the first that has no kind or cannot be right: the file may be damaged. A second call with the number of an
 * earlier one replaces it. A second communicator with the number of an earlier one makes the file useless, because its calls
 * would be taken for those of the other.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

/* ---- where the events end ---- */

static bool is_time(uint64_t ns)
{
    return ns < (uint64_t)TRACE_TIMES;
}

static bool is_event(const dma_trace_event_t *e)
{
    switch ((dma_trace_kind_t)e->kind) {
    case DMA_TRACE_TEXT:
        return true;
    case DMA_TRACE_SUBMIT:
    case DMA_TRACE_SEND:
    case DMA_TRACE_RECV:
    case DMA_TRACE_LOCAL:
    case DMA_TRACE_READING:
        return is_time(e->at) && is_time(e->b);
    case DMA_TRACE_CORES:
    case DMA_TRACE_STAMP:
    case DMA_TRACE_EARLY:
    case DMA_TRACE_MOMENT:
        return is_time(e->at) && is_time(e->a) && is_time(e->b);
    default:
        return e->kind != DMA_TRACE_NONE && e->kind < DMA_TRACE_KINDS && is_time(e->at);
    }
}

static void find_end(trace_file_t *file)
{
    size_t i = 0;

    while (i < file->n && is_event(&file->events[i])) {
        i++;
    }
    if (i < file->n && file->events[i].kind != DMA_TRACE_NONE) {
        fprintf(stderr, "coll_dma_trace: %s: damaged: nothing is read behind event %zu\n", file->path, i);
    }
    file->n = i;
}

/* ---- communicators ---- */

static int compare_comms(const void *a, const void *b)
{
    const trace_comm_t *c = a, *d = b;

    return (c->number > d->number) - (c->number < d->number);
}

trace_comm_t *trace_comm_of(const trace_file_t *file, uint16_t number)
{
    trace_comm_t key = {.number = number};

    if (number < file->ncomms && file->comms[number].number == number) {
        return &file->comms[number]; /* usually no number below it is missing */
    }
    return file->ncomms ? bsearch(&key, file->comms, file->ncomms, sizeof(key), compare_comms) : NULL;
}

static void add_text(trace_comm_t *comm, const dma_trace_event_t *event)
{
    size_t used = strlen(comm->name), left = sizeof(comm->name) - 1 - used;
    char text[25] = "";

    memcpy(text, &event->at, 8);
    memcpy(text + 8, &event->a, 16);
    strncat(comm->name, text, left);
}

static const char *find_comms(trace_file_t *file, size_t n)
{
    file->comms = calloc(n ? n : 1, sizeof(*file->comms));
    if (!file->comms) {
        return "no memory";
    }
    for (size_t i = 0; i < file->n; i++) {
        const dma_trace_event_t *e = &file->events[i];

        if (e->kind == DMA_TRACE_COMM) {
            file->comms[file->ncomms++] = (trace_comm_t){.number = e->comm,
                                                         .rank = (int)(e->a >> 32),
                                                         .nranks = (int)(e->a & UINT32_MAX),
                                                         .inner = e->detail,
                                                         .identity = e->b};
        }
    }
    qsort(file->comms, file->ncomms, sizeof(*file->comms), compare_comms);
    for (size_t i = 1; i < file->ncomms; i++) {
        if (file->comms[i].number == file->comms[i - 1].number) {
            return "two communicators have one number";
        }
    }
    return NULL;
}

/* ---- calls ---- */

static int compare_numbers(const void *a, const void *b)
{
    const trace_call_t *c = a, *d = b;

    return (c->seq > d->seq) - (c->seq < d->seq);
}

/* `entered` is the place in the file until the calls are sorted, because qsort() does not keep the order of equal ones. */
static int compare_calls(const void *a, const void *b)
{
    const trace_call_t *c = a, *d = b;
    int order = (c->comm > d->comm) - (c->comm < d->comm);

    order = order ? order : compare_numbers(a, b);
    return order ? order : (c->entered > d->entered) - (c->entered < d->entered);
}

static size_t collect_calls(trace_file_t *file)
{
    size_t n = 0;

    for (size_t i = 0; i < file->n; i++) {
        const dma_trace_event_t *e = &file->events[i];
        const trace_comm_t *comm = e->kind == DMA_TRACE_BEGIN ? trace_comm_of(file, e->comm) : NULL;

        if (comm) {
            file->calls[n++] = (trace_call_t){.comm = (size_t)(comm - file->comms),
                                              .coll = e->detail,
                                              .seq = e->seq,
                                              .bytes = e->a,
                                              .begin = (int64_t)e->at,
                                              .entered = (int64_t)i,
                                              .variant = "-"};
        }
    }
    qsort(file->calls, n, sizeof(*file->calls), compare_calls);
    return n;
}

/* Gives the calls, in order, to their communicators. Of several with the same number, the last one remains. */
static const char *find_calls(trace_file_t *file, size_t n)
{
    size_t last = 0;

    file->calls = calloc(n ? n : 1, sizeof(*file->calls));
    if (!file->calls) {
        return "no memory";
    }
    n = collect_calls(file);
    for (size_t i = 0; i < n; i++) {
        trace_call_t call = file->calls[i];
        trace_comm_t *comm = &file->comms[call.comm];

        call.entered = 0;
        last -= comm->ncalls && comm->calls[comm->ncalls - 1].seq == call.seq;
        comm->calls = comm->ncalls ? comm->calls : &file->calls[last];
        file->calls[last++] = call;
        comm->ncalls = (size_t)(&file->calls[last] - comm->calls);
    }
    return NULL;
}

static trace_call_t *find_call(const trace_comm_t *comm, uint32_t seq)
{
    trace_call_t key = {.seq = seq};

    if (!comm || !comm->ncalls) {
        return NULL;
    }
    if (seq - comm->calls->seq < comm->ncalls && comm->calls[seq - comm->calls->seq].seq == seq) {
        return &comm->calls[seq - comm->calls->seq]; /* usually no number below it is missing */
    }
    return bsearch(&key, comm->calls, comm->ncalls, sizeof(key), compare_numbers);
}

trace_call_t *trace_call_of(const trace_file_t *file, const dma_trace_event_t *event)
{
    trace_call_t *call = event->kind > DMA_TRACE_TEXT ? find_call(trace_comm_of(file, event->comm), event->seq) : NULL;

    return call && call->ended ? call : NULL;
}

/* ---- facts about a call ---- */

static void extend(trace_span_t *span, uint64_t first, uint64_t last)
{
    span->first = span->last && span->first < (int64_t)first ? span->first : (int64_t)first;
    span->last = span->last > (int64_t)last ? span->last : (int64_t)last;
}

static void add_cores(trace_call_t *call, const dma_trace_event_t *event)
{
    extend(&call->cores, event->at, event->a);
    call->busy += (int64_t)event->b;
    call->busy = call->busy < TRACE_TIMES ? call->busy : TRACE_TIMES;
}

static void add_line(trace_call_t *call, const trace_comm_t *comm, const dma_trace_event_t *event)
{
    if (event->a == (uint64_t)comm->rank && (int64_t)event->at > call->line) {
        call->line = (int64_t)event->at;
    }
}

static void set_plan(trace_call_t *call, const dma_trace_event_t *event)
{
    call->plan = (int64_t)event->at;
    call->by = event->detail;
    memcpy(call->variant, &event->a, 16);
    trace_clean_text(call->variant);
}

static void add_to_call(trace_call_t *call, const trace_comm_t *comm, const dma_trace_event_t *event)
{
    switch ((dma_trace_kind_t)event->kind) {
    case DMA_TRACE_PLAN:
        set_plan(call, event);
        break;
    case DMA_TRACE_ENTERED:
        call->entered = (int64_t)event->at;
        break;
    case DMA_TRACE_MET:
        call->met = (int64_t)event->at;
        call->busy_before_met = call->busy;
        break;
    case DMA_TRACE_SUBMIT:
        call->armed = event->detail;
        extend(&call->submit, event->at, call->armed ? event->at : event->b);
        break;
    case DMA_TRACE_CORES:
        add_cores(call, event);
        break;
    case DMA_TRACE_LINE:
        add_line(call, comm, event);
        break;
    case DMA_TRACE_STAMP:
        extend(&call->ticks, event->a, event->b);
        call->told = (int64_t)event->at;
        break;
    case DMA_TRACE_EARLY:
        call->early = call->early > (int64_t)event->b ? call->early : (int64_t)event->b;
        break;
    case DMA_TRACE_READING:
        call->reading = (int64_t)event->b > (int64_t)event->at ? (int64_t)(event->b - event->at) : 0;
        break;
    case DMA_TRACE_END:
        call->ended = true;
        call->end = (int64_t)event->at - call->reading;
        call->end = call->end > call->begin ? call->end : call->begin;
        call->status = event->detail;
        break;
    default:
        break;
    }
}

static void add_event(trace_file_t *file, const dma_trace_event_t *event)
{
    trace_comm_t *comm = trace_comm_of(file, event->comm);
    trace_call_t *call;

    if (comm && event->kind == DMA_TRACE_TEXT) {
        add_text(comm, event);
    } else if ((call = find_call(comm, event->seq))) {
        add_to_call(call, comm, event);
    }
}

const char *trace_find_calls(trace_file_t *file)
{
    size_t comms = 0, calls = 0;
    const char *why;

    find_end(file);
    for (size_t i = 0; i < file->n; i++) {
        comms += file->events[i].kind == DMA_TRACE_COMM;
        calls += file->events[i].kind == DMA_TRACE_BEGIN;
    }
    why = find_comms(file, comms);
    why = why ? why : find_calls(file, calls);
    for (size_t i = 0; !why && i < file->n; i++) {
        add_event(file, &file->events[i]);
    }
    for (size_t i = 0; !why && i < file->ncomms; i++) {
        trace_clean_text(file->comms[i].name);
    }
    return why;
}
