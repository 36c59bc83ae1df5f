/*
 * The ranks side by side, to find the one that is slow:
 *
 *     entered last   calls in which it came after all others, and in how many of them it was late: the last but one waited for
 *                    it ten times as long as it does in the median. How long that was in all, and at most. Ranks that are
 *                    late together hide each other
 *     schedule, copy medians over its calls; over those whose times its engine has told, if there are any
 *     messages       to it, from when they were sent until they had come: the median, the worst one, and how many took ten times
 *                    the median of all messages of the job and more
 *
 * A table by rank shows what means over all calls of all ranks do not: one rank that is late in every tenth call.
 */
#include <stdlib.h>

#include "tools/trace/trace.h"

#define SLOW 10 /* times the median */

typedef struct entry {
    uint64_t identity; /* of the communicator */
    uint32_t seq;
    size_t file;
    int64_t at;
} entry_t;

static int compare_entries(const void *p, const void *q)
{
    const entry_t *a = p, *b = q;

    return a->identity != b->identity ? (a->identity > b->identity) - (a->identity < b->identity)
           : a->seq != b->seq         ? (a->seq > b->seq) - (a->seq < b->seq)
                                      : (a->at > b->at) - (a->at < b->at);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    if (!n) {
        return 0;
    }
    qsort(values, n, sizeof(*values), ascending);
    return (values[n / 2] + values[(n - 1) / 2]) / 2;
}

static bool is_counted(const trace_comm_t *comm, const trace_call_t *call)
{
    return call->ended && !call->status && !comm->inner && comm->identity && comm->nranks > 1;
}

static size_t count_calls(const trace_set_t *set)
{
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < set->files[i].ncomms; k++) {
            n += set->files[i].comms[k].ncalls;
        }
    }
    return n;
}

static bool has_times(const trace_file_t *file)
{
    for (size_t k = 0; k < file->ncomms; k++) {
        for (size_t c = 0; c < file->comms[k].ncalls; c++) {
            if (is_counted(&file->comms[k], &file->comms[k].calls[c]) &&
                trace_has_times(file, &file->comms[k].calls[c])) {
                return true;
            }
        }
    }
    return false;
}

/* What a rank's own calls say; appends its entries. `room` is for as many numbers as there are calls. */
static size_t add_calls(const trace_set_t *set, size_t number, trace_rank_t *rank, entry_t *entries, double *room)
{
    const trace_file_t *file = &set->files[number];
    double *copies = room, *schedules = room + count_calls(set);
    bool timed = has_times(file);
    size_t n = 0, times = 0;

    for (size_t k = 0; k < file->ncomms; k++) {
        const trace_comm_t *comm = &file->comms[k];

        for (size_t c = 0; c < comm->ncalls; c++) {
            const trace_call_t *call = &comm->calls[c];

            if (is_counted(comm, call)) {
                entries[n++] = (entry_t){comm->identity, call->seq, number, call->begin + file->offset};
                if (trace_has_times(file, call) == timed) {
                    schedules[times] = call->phases.schedule / 1e3;
                    copies[times++] = call->phases.copy / 1e3;
                }
            }
        }
    }
    rank->calls = n;
    rank->copy = median(copies, times);
    rank->schedule = median(schedules, times);
    return n;
}

/* Calls pair for pair: the last entry of each, and how long the last but one waited for it. Returns their number. */
static size_t find_waits(const entry_t *entries, size_t n, const entry_t **last, double *waits)
{
    size_t first = 0, calls = 0;

    for (size_t i = 1; i <= n; i++) {
        if (i == n || entries[i].identity != entries[first].identity || entries[i].seq != entries[first].seq) {
            if (i - first > 1) {
                last[calls] = &entries[i - 1];
                waits[calls++] = (double)(entries[i - 1].at - entries[i - 2].at) / 1e3;
            }
            first = i;
        }
    }
    return calls;
}

static bool find_late(entry_t *entries, size_t n, trace_rank_t *ranks, double *room)
{
    const entry_t **last = calloc(n + 1, sizeof(const entry_t *));
    double usual;
    size_t calls;

    if (!last) {
        return false;
    }
    qsort(entries, n, sizeof(*entries), compare_entries);
    calls = find_waits(entries, n, last, room);
    usual = median(room, calls);
    calls = find_waits(entries, n, last, room); /* again in their order */
    for (size_t i = 0; i < calls; i++) {
        trace_rank_t *rank = &ranks[last[i]->file];

        rank->last++;
        rank->late += room[i] > SLOW * usual;
        rank->waited += room[i];
        rank->latest = room[i] > rank->latest ? room[i] : rank->latest;
    }
    free(last);
    return true;
}

/* ---- messages ---- */

static double transit(const trace_set_t *set, const trace_message_t *m)
{
    int64_t ns = trace_time(&set->files[m->file], m->event->b) - m->sent;

    return ns > 0 ? (double)ns / 1e3 : 0;
}

static void add_messages(const trace_set_t *set, const trace_messages_t *messages, trace_rank_t *ranks, double *room)
{
    double all;
    size_t n = 0;

    for (size_t i = 0; i < messages->nrecvs; i++) {
        if (messages->recvs[i].sent != INT64_MIN) {
            room[n++] = transit(set, &messages->recvs[i]);
        }
    }
    all = median(room, n);
    for (size_t f = 0; f < set->n && n; f++) {
        trace_rank_t *rank = &ranks[f];

        for (size_t i = 0; i < messages->nrecvs; i++) {
            const trace_message_t *m = &messages->recvs[i];
            double us;

            if (m->file != f || m->sent == INT64_MIN) {
                continue;
            }
            us = room[rank->messages++] = transit(set, m);
            rank->slow += us > SLOW * all;
            if (us > rank->worst) {
                rank->worst = us;
                rank->worst_from = m->from;
            }
        }
        rank->transit = median(room, rank->messages);
    }
}

bool trace_find_ranks(const trace_set_t *set, const trace_messages_t *messages, trace_rank_t **ranks)
{
    size_t calls = count_calls(set), most = 2 * calls > messages->nrecvs ? 2 * calls : messages->nrecvs, n = 0;
    entry_t *entries = calloc(calls + 1, sizeof(*entries));
    double *room = calloc(most + 1, sizeof(*room));
    bool good;

    *ranks = calloc(set->n + 1, sizeof(**ranks));
    good = entries && room && *ranks;
    for (size_t i = 0; i < set->n && good; i++) {
        n += add_calls(set, i, &(*ranks)[i], entries + n, room);
    }
    if (good) {
        good = find_late(entries, n, *ranks, room);
        add_messages(set, messages, *ranks, room);
    }
    free(entries);
    free(room);
    return good;
}

void trace_print_ranks(const trace_set_t *set, const trace_rank_t *ranks)
{
    printf("%5s %-12s %7s  %7s %7s %9s %9s  %9s %9s  %8s %9s %6s %9s %s\n", "rank", "host", "calls", "last", "late",
           "waited ms", "worst us", "schedule", "copy", "messages", "us", "slow", "worst us", "from");
    for (size_t i = 0; i < set->n; i++) {
        const trace_rank_t *r = &ranks[i];

        printf("%5d %-12.12s %7zu  %7zu %7zu %9.2f %9.1f  %9.2f %9.2f", set->files[i].head.rank,
               set->files[i].head.host, r->calls, r->last, r->late, r->waited / 1e3, r->latest, r->schedule, r->copy);
        if (r->messages) {
            printf("  %8zu %9.1f %6zu %9.1f %4d", r->messages, r->transit, r->slow, r->worst, r->worst_from);
        }
        printf("\n");
    }
    printf(
        "last: calls that this rank was the last to enter; late: those in which the last but one waited %d times the "
        "median for it and more; waited, worst: in all calls, at most.\n"
        "schedule, copy: medians in microseconds. messages: to this rank; slow: %d times the median of all and more.\n",
        SLOW, SLOW);
}
