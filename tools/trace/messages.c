/*
 * Messages between nodes, and what they say about the clocks of hosts.
 *
 * Messages of one call, one step of its plan and the same two ranks belong together, in order. None arrives before it was
 * sent. So every message from host A to host B gives a bound: the clock of B is ahead of that of A by at most
 *
 *     received (clock of B) - sent (clock of A)
 *
 * The least of these bounds over all messages, along all paths of hosts, bounds the difference from above. Messages in the
 * other direction bound it from below. The middle is used. The error is at most half of the distance.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

#define FAR (INT64_MAX / 4) /* no bound */

/* ---- pairs ---- */

static bool append(trace_message_t **list, size_t *n, const trace_message_t *message)
{
    if (*n % 1024 == 0) {
        trace_message_t *more = realloc(*list, (*n + 1024) * sizeof(*more));

        if (!more) {
            return false;
        }
        *list = more;
    }
    (*list)[(*n)++] = *message;
    return true;
}

static bool collect(const trace_set_t *set, size_t number, trace_messages_t *m)
{
    const trace_file_t *file = &set->files[number];
    bool good = true;

    for (size_t i = 0; good && i < file->n; i++) {
        const dma_trace_event_t *event = &file->events[i];
        bool send = event->kind == DMA_TRACE_SEND;
        const trace_comm_t *comm = trace_comm_of(file, event->comm);

        if (comm && comm->identity && (send || event->kind == DMA_TRACE_RECV)) {
            int peer = (int)(event->a >> 40);
            trace_message_t message = {.identity = comm->identity,
                                       .from = send ? comm->rank : peer,
                                       .to = send ? peer : comm->rank,
                                       .file = number,
                                       .event = event,
                                       .sent = INT64_MIN};

            good = append(send ? &m->sends : &m->recvs, send ? &m->nsends : &m->nrecvs, &message);
        }
    }
    return good;
}

#define COMPARE(x, y) ((x) > (y)) - ((x) < (y))

/* What messages must have in common to belong together: from which rank to which, in which call and step of its plan. */
static int compare_pairs(const trace_message_t *a, const trace_message_t *b)
{
    return a->identity != b->identity       ? COMPARE(a->identity, b->identity)
           : a->from != b->from             ? COMPARE(a->from, b->from)
           : a->to != b->to                 ? COMPARE(a->to, b->to)
           : a->event->seq != b->event->seq ? COMPARE(a->event->seq, b->event->seq)
                                            : COMPARE(a->event->detail, b->event->detail);
}

static int compare_messages(const void *p, const void *q)
{
    const trace_message_t *a = p, *b = q;
    int order = compare_pairs(a, b);

    return order ? order : (a->event->at > b->event->at) - (a->event->at < b->event->at); /* pieces of one message */
}

static void sort(trace_message_t *list, size_t n)
{
    if (n) {
        qsort(list, n, sizeof(*list), compare_messages);
    }
}

bool trace_match(const trace_set_t *set, trace_messages_t *m)
{
    *m = (trace_messages_t){0};
    for (size_t i = 0; i < set->n; i++) {
        if (!collect(set, i, m)) {
            return false;
        }
    }
    sort(m->sends, m->nsends);
    sort(m->recvs, m->nrecvs);
    return true;
}

void trace_messages_free(trace_messages_t *m)
{
    free(m->sends);
    free(m->recvs);
}

/* The other message of the pair: the one with the same place among those of its two ranks. NULL: there is none. */
typedef void (*pair_t)(void *arg, const trace_message_t *send, trace_message_t *recv);

static void for_each_pair(trace_messages_t *m, pair_t pair, void *arg)
{
    size_t s = 0, r = 0;

    while (s < m->nsends && r < m->nrecvs) {
        int order = compare_pairs(&m->sends[s], &m->recvs[r]);

        if (order == 0) {
            pair(arg, &m->sends[s], &m->recvs[r]);
        }
        s += order <= 0;
        r += order >= 0;
    }
}

/* ---- clocks ---- */

typedef struct clocks {
    trace_set_t *set;
    size_t n;       /* different ones */
    size_t *of;     /* by file */
    int64_t *bound; /* n * n: clock j is ahead of clock i by at most bound[i * n + j] */
} clocks_t;

static void bound_by_message(void *arg, const trace_message_t *send, trace_message_t *recv)
{
    clocks_t *c = arg;
    int64_t *bound = &c->bound[c->of[send->file] * c->n + c->of[recv->file]];
    int64_t difference = (int64_t)recv->event->b - (int64_t)send->event->at;

    *bound = difference < *bound ? difference : *bound;
}

static void shorten_paths(clocks_t *c)
{
    for (size_t k = 0; k < c->n; k++) {
        for (size_t i = 0; i < c->n; i++) {
            for (size_t j = 0; j < c->n; j++) {
                int64_t by = c->bound[i * c->n + k] + c->bound[k * c->n + j];

                if (c->bound[i * c->n + k] < FAR && c->bound[k * c->n + j] < FAR && by < c->bound[i * c->n + j]) {
                    c->bound[i * c->n + j] = by > -FAR ? by : -FAR; /* damaged files: sums of sums would overflow */
                }
            }
        }
    }
}

static void find_clocks(clocks_t *c)
{
    for (size_t i = 0; i < c->set->n; i++) {
        size_t k = 0;

        while (k < i && strcmp(c->set->files[k].head.clock, c->set->files[i].head.clock) != 0) {
            k++;
        }
        c->of[i] = k < i ? c->of[k] : c->n++;
    }
}

/* How far the clock of the file is ahead of the clock of the first file. */
static int64_t ahead(const clocks_t *c, size_t file)
{
    const dma_trace_head_t *zero = &c->set->files[0].head, *head = &c->set->files[file].head;
    int64_t most = c->bound[c->of[file]], least = c->bound[c->of[file] * c->n];

    if (most < FAR && least < FAR) {
        fprintf(stderr, "coll_dma_trace: the clock of %s is known to %.1f us, from messages\n", head->host,
                (double)(most + least) / 2000);
        return (most - least) / 2;
    }
    fprintf(stderr, "coll_dma_trace: no messages in both directions relate the clock of %s: its time of day is used\n",
            head->host);
    return (int64_t)(head->monotonic - head->realtime) - (int64_t)(zero->monotonic - zero->realtime);
}

static void set_sent(void *arg, const trace_message_t *send, trace_message_t *recv)
{
    const trace_set_t *set = arg;

    recv->sent = trace_time(&set->files[send->file], send->event->at);
}

static void use_clocks(clocks_t *c, trace_messages_t *messages)
{
    int64_t last = 0;
    size_t clock = 0;

    for (size_t i = 0; i < c->n * c->n; i++) {
        c->bound[i] = FAR;
    }
    for_each_pair(messages, bound_by_message, c);
    shorten_paths(c);
    for (size_t i = 0; i < c->set->n; i++) {
        if (c->of[i] > clock) { /* clocks are numbered in the order of files */
            clock = c->of[i];
            last = -ahead(c, i);
        }
        c->set->files[i].offset = c->of[i] == clock ? last : 0;
        for (size_t k = 0; k < i; k++) {
            if (c->of[k] == c->of[i]) {
                c->set->files[i].offset = c->set->files[k].offset;
            }
        }
    }
}

void trace_set_offsets(trace_set_t *set, trace_messages_t *messages)
{
    clocks_t c = {.set = set, .of = calloc(set->n, sizeof(*c.of))};

    if (c.of) {
        find_clocks(&c);
        c.bound = c.n > 1 ? calloc(c.n * c.n, sizeof(*c.bound)) : NULL;
    }
    if (c.bound) {
        use_clocks(&c, messages);
    }
    free(c.of);
    free(c.bound);
    for_each_pair(messages, set_sent, set);
}
