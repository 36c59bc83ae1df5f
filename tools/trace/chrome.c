/*
 * All events as JSON for Perfetto and chrome://tracing. A process is a rank. Each communicator has a few threads in it: its
 * calls, the copies of the core, submissions, messages, and the programs of engines. Spans of a thread never overlap. If
 * spans would overlap, as those of non-blocking calls do, there is another thread for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/trace/trace.h"

enum { CALLS, CORES, SUBMISSION, SENDS, RECVS, LOCALS, ENGINE, TRACKS };
enum { ROOM = 64 }; /* threads of a track */

static const char *const track_names[TRACKS] = {
    "calls", "copies of the core", "submission", "messages sent", "messages received", "inside the node", "engine"};

typedef struct piece {
    int track;
    int64_t first, last; /* equal: a moment */
    size_t comm;
    const trace_call_t *call;
    const dma_trace_event_t *event; /* NULL: the call itself */
} piece_t;

typedef struct pieces {
    piece_t *list;
    size_t n;
    bool failed;
} pieces_t;

typedef struct writer {
    FILE *to;
    const trace_file_t *file;
    size_t *same; /* count_same */
    size_t pid;
    int64_t zero;
    bool any;
} writer_t;

/* ---- what there is ---- */

static void add(pieces_t *p, const piece_t *piece)
{
    if (p->n % 4096 == 0) {
        piece_t *more = realloc(p->list, (p->n + 4096) * sizeof(*more));

        if (!more) {
            p->failed = true;
            return;
        }
        p->list = more;
    }
    p->list[p->n++] = *piece;
}

/* A part of a call lies within it, whatever the clocks say. */
static void add_inside(pieces_t *p, piece_t piece)
{
    const trace_call_t *call = piece.call;

    piece.first = piece.first < call->begin ? call->begin : piece.first > call->end ? call->end : piece.first;
    piece.last = piece.last < piece.first ? piece.first : piece.last > call->end ? call->end : piece.last;
    add(p, &piece);
}

static void add_event(pieces_t *p, const trace_file_t *file, const dma_trace_event_t *e)
{
    piece_t piece = {.call = trace_call_of(file, e), .event = e, .first = (int64_t)e->at};

    if (!piece.call) {
        return;
    }
    piece.comm = (size_t)(trace_comm_of(file, e->comm) - file->comms);
    piece.last = piece.first;
    switch ((dma_trace_kind_t)e->kind) {
    case DMA_TRACE_CORES:
        piece.track = CORES;
        piece.last = (int64_t)e->a;
        break;
    case DMA_TRACE_SUBMIT:
        piece.track = SUBMISSION;
        piece.last = e->detail ? piece.first : (int64_t)e->b;
        break;
    case DMA_TRACE_COMMAND:
        piece.track = SUBMISSION;
        break;
    case DMA_TRACE_SEND:
    case DMA_TRACE_RECV:
    case DMA_TRACE_LOCAL:
        piece.track = e->kind == DMA_TRACE_SEND ? SENDS : e->kind == DMA_TRACE_RECV ? RECVS : LOCALS;
        piece.last = (int64_t)e->b;
        break;
    case DMA_TRACE_STAMP:
    case DMA_TRACE_EARLY:
        if (!file->has_ticks) {
            return;
        }
        piece.track = ENGINE;
        piece.first = trace_tick_time(file, e->a);
        piece.last = trace_tick_time(file, e->b);
        break;
    case DMA_TRACE_ENTERED:
    case DMA_TRACE_MET:
    case DMA_TRACE_PLAN:
    case DMA_TRACE_LINE:
        piece.track = CALLS;
        break;
    default:
        return;
    }
    add_inside(p, piece);
}

static int compare(const void *a, const void *b)
{
    const piece_t *p = a, *q = b;

    return p->comm != q->comm     ? (p->comm > q->comm) - (p->comm < q->comm)
           : p->track != q->track ? p->track - q->track
           : p->first != q->first ? (p->first > q->first) - (p->first < q->first)
                                  : (p->last < q->last) - (p->last > q->last); /* the longer one first: it encloses */
}

static pieces_t collect(const trace_file_t *file)
{
    pieces_t p = {0};

    for (size_t i = 0; i < file->ncomms; i++) {
        for (size_t k = 0; k < file->comms[i].ncalls; k++) {
            const trace_call_t *call = &file->comms[i].calls[k];

            if (call->ended) {
                add(&p, &(piece_t){.track = CALLS, .first = call->begin, .last = call->end, .comm = i, .call = call});
            }
        }
    }
    for (size_t i = 0; i < file->n; i++) {
        add_event(&p, file, &file->events[i]);
    }
    if (p.n) {
        qsort(p.list, p.n, sizeof(*p.list), compare);
    }
    return p;
}

/* ---- JSON ---- */

static void put_text(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c < 0x20 || c > 0x7e || c == '"' || c == '\\') {
            fprintf(to, "\\u%04x", c);
        } else {
            fputc(c, to);
        }
    }
    fputc('"', to);
}

static void begin_event(writer_t *w, const char *phase, unsigned long thread)
{
    fprintf(w->to, "%s\n{\"ph\":\"%s\",\"pid\":%zu,\"tid\":%lu", w->any ? "," : "", phase, w->pid, thread);
    w->any = true;
}

static void put_name(writer_t *w, const char *what, unsigned long thread, const char *name)
{
    begin_event(w, "M", thread);
    fprintf(w->to, ",\"name\":\"%s\",\"args\":{\"name\":", what);
    put_text(w->to, name);
    fprintf(w->to, "}}");
}

static void put_time(writer_t *w, const char *name, int64_t ns)
{
    long long part = ns < 0 ? -ns : ns; /* the first call begins before its trace does */

    fprintf(w->to, ",\"%s\":%s%lld.%03lld", name, ns < 0 ? "-" : "", part / 1000, part % 1000);
}

static const char *title(const piece_t *p, char *text, size_t bytes)
{
    static const char *const moments[DMA_TRACE_KINDS] = {
        [DMA_TRACE_ENTERED] = "entered",
        [DMA_TRACE_MET] = "met",
        [DMA_TRACE_PLAN] = "plan",
        [DMA_TRACE_CORES] = "copies",
    };
    const dma_trace_event_t *e = p->event;

    if (!e) {
        return trace_coll_name(p->call->coll);
    }
    switch ((dma_trace_kind_t)e->kind) {
    case DMA_TRACE_SUBMIT:
        return e->detail ? "start of armed programs" : "submission";
    case DMA_TRACE_COMMAND:
        snprintf(text, bytes, "copy to rank %d", (int)(e->a >> 48));
        break;
    case DMA_TRACE_LINE:
        snprintf(text, bytes, "end of rank %d, program %d", (int)e->a, e->detail);
        break;
    case DMA_TRACE_STAMP:
    case DMA_TRACE_EARLY:
        snprintf(text, bytes, "program %d", e->detail);
        break;
    case DMA_TRACE_SEND:
    case DMA_TRACE_RECV:
        snprintf(text, bytes, "%s rank %d", e->kind == DMA_TRACE_SEND ? "to" : "from", (int)(e->a >> 40));
        break;
    case DMA_TRACE_LOCAL:
        snprintf(text, bytes, "step %d", (int)e->a);
        break;
    default:
        return moments[e->kind];
    }
    return text;
}

static void put_call_args(FILE *to, const trace_call_t *call)
{
    const trace_phases_t *p = &call->phases;

    fprintf(to, ",\"args\":{\"call\":%u,\"bytes\":%llu,\"by\":\"%s\",\"variant\":", (unsigned)call->seq,
            (unsigned long long)call->bytes, trace_by_name(call->by));
    put_text(to, call->variant);
    fprintf(to, ",\"status\":%d,\"control_us\":%.3f,\"schedule_us\":%.3f,\"copy_us\":%.3f,\"synchronise_us\":%.3f}",
            -(int)call->status, p->control / 1e3, p->schedule / 1e3, p->copy / 1e3, p->synchronise / 1e3);
}

static void put_args(FILE *to, const piece_t *p)
{
    const dma_trace_event_t *e = p->event;

    if (!e) {
        put_call_args(to, p->call);
        return;
    }
    fprintf(to, ",\"args\":{\"call\":%u", (unsigned)e->seq);
    if (e->kind == DMA_TRACE_COMMAND) {
        fprintf(to, ",\"bytes\":%llu,\"program\":%d", (unsigned long long)(e->a & ((UINT64_C(1) << 48) - 1)),
                e->detail);
    } else if (e->kind == DMA_TRACE_SEND || e->kind == DMA_TRACE_RECV) {
        fprintf(to, ",\"bytes\":%llu", (unsigned long long)(e->a & ((UINT64_C(1) << 40) - 1)));
    } else if (e->kind == DMA_TRACE_CORES) {
        fprintf(to, ",\"copying_us\":%.3f", (double)e->b / 1e3);
    }
    fprintf(to, "}");
}

static void put_piece(writer_t *w, const piece_t *p, unsigned long thread)
{
    char text[64];

    begin_event(w, p->last > p->first || !p->event ? "X" : "i", thread);
    fprintf(w->to, ",\"name\":");
    put_text(w->to, title(p, text, sizeof(text)));
    put_time(w, "ts", p->first + w->file->offset - w->zero);
    if (p->last > p->first || !p->event) {
        put_time(w, "dur", p->last - p->first);
    } else {
        fprintf(w->to, ",\"s\":\"t\"");
    }
    put_args(w->to, p);
    fprintf(w->to, "}");
}

/* ---- threads ---- */

/* The first thread of the track on which the piece overlaps with none. A moment may lie in a span. */
static int find_thread(int64_t *busy, const piece_t *p)
{
    int k = 0;

    if (p->event && p->last == p->first) {
        return 0;
    }
    while (k < ROOM - 1 && busy[k] > p->first) {
        k++;
    }
    busy[k] = p->last;
    return k;
}

/* The order of two communicators by name. */
static int by_name(const trace_comm_t *a, const trace_comm_t *b)
{
    int order = strcmp(a->name, b->name);

    return order ? order : a->inner - b->inner;
}

/* The same, and of equal names by number. */
static int by_name_and_number(const void *a, const void *b)
{
    const trace_comm_t *x = *(const trace_comm_t *const *)a, *y = *(const trace_comm_t *const *)b;
    int order = by_name(x, y);

    return order ? order : (x > y) - (x < y);
}

/* For each communicator, how many before it have its name: a persistent call has one of its own. The caller frees the
 * result. If there is no memory it is NULL, and names have no numbers. */
static size_t *count_same(const trace_file_t *file)
{
    size_t n = file->ncomms, *same = calloc(n + 1, sizeof(*same));
    const trace_comm_t **sorted = malloc((n + 1) * sizeof(*sorted));

    if (!same || !sorted) {
        free(same);
        free(sorted);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = &file->comms[i];
    }
    qsort(sorted, n, sizeof(*sorted), by_name_and_number);
    for (size_t i = 1; i < n; i++) {
        if (!by_name(sorted[i - 1], sorted[i])) {
            same[sorted[i] - file->comms] = same[sorted[i - 1] - file->comms] + 1;
        }
    }
    free(sorted);
    return same;
}

static void name_thread(writer_t *w, const piece_t *p, int k, unsigned long thread)
{
    char name[TRACE_NAME + 64];
    const trace_comm_t *comm = &w->file->comms[p->comm];
    size_t same = w->same ? w->same[p->comm] : 0;

    snprintf(name, sizeof(name), "%s%s", comm->name, comm->inner ? ", inside the node" : "");
    if (same > 0) {
        snprintf(name + strlen(name), sizeof(name) - strlen(name), " [%zu]", same + 1);
    }
    snprintf(name + strlen(name), sizeof(name) - strlen(name), ": %s", track_names[p->track]);
    if (k) {
        snprintf(name + strlen(name), sizeof(name) - strlen(name), " %d", k + 1);
    }
    put_name(w, "thread_name", thread, name);
}

static void put_file(writer_t *w)
{
    pieces_t p = collect(w->file);
    int64_t busy[ROOM] = {0};
    int named = 0; /* threads of the track that have names */

    for (size_t i = 0; i < p.n; i++) {
        const piece_t *piece = &p.list[i];
        unsigned long thread = (piece->comm * TRACKS + (unsigned long)piece->track) * ROOM;
        int k;

        if (i == 0 || piece->comm != piece[-1].comm || piece->track != piece[-1].track) {
            memset(busy, 0, sizeof(busy));
            named = 0;
        }
        k = find_thread(busy, piece);
        for (; named <= k; named++) {
            name_thread(w, piece, named, thread + (unsigned long)named);
        }
        put_piece(w, piece, thread + (unsigned long)k);
    }
    free(p.list);
}

bool trace_write_chrome(const trace_set_t *set, const char *path)
{
    writer_t w = {.to = fopen(path, "we"), .zero = INT64_MAX};
    bool good;

    if (!w.to) {
        fprintf(stderr, "coll_dma_trace: %s: %s\n", path, strerror(errno));
        return false;
    }
    for (size_t i = 0; i < set->n; i++) {
        int64_t first = trace_time(&set->files[i], set->files[i].head.monotonic);

        w.zero = first < w.zero ? first : w.zero;
    }
    fprintf(w.to, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
    for (size_t i = 0; i < set->n; i++) {
        const dma_trace_head_t *head = &set->files[i].head;
        char name[192];

        w.file = &set->files[i];
        w.pid = i;
        snprintf(name, sizeof(name), "rank %d on %.60s, process %d, job %.40s", head->rank, head->host, head->pid,
                 head->job);
        put_name(&w, "process_name", 0, name);
        w.same = count_same(w.file);
        put_file(&w);
        free(w.same);
    }
    fprintf(w.to, "\n]}\n");
    good = !ferror(w.to);
    if (fclose(w.to) || !good) {
        fprintf(stderr, "coll_dma_trace: %s: cannot be written\n", path);
        return false;
    }
    return true;
}
