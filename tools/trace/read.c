/* Reads trace files. What is in them is checked: a file may be the end of a process that was killed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace/trace.h"

#define MOST_CALLS (UINT32_C(1) << 26) /* of a communicator: a number above it is not one */

static bool fail(const char *path, const char *why)
{
    fprintf(stderr, "coll_dma_trace: %s: %s\n", path, why);
    return false;
}

/* ---- one file ---- */

static bool map_file(trace_file_t *file)
{
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *map;

    if (fd < 0 || fstat(fd, &st)) {
        fail(file->path, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    file->bytes = (size_t)st.st_size;
    map = file->bytes >= DMA_TRACE_HEAD ? mmap(NULL, file->bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (map == MAP_FAILED) {
        return fail(file->path, "is not a trace");
    }
    file->head = map;
    if (file->head->magic != DMA_TRACE_MAGIC || file->head->event_bytes != sizeof(dma_trace_event_t)) {
        munmap(map, file->bytes);
        return fail(file->path, "is not a trace, or one of another version");
    }
    file->events = (const dma_trace_event_t *)(const void *)((const char *)map + DMA_TRACE_HEAD);
    file->n = (file->bytes - DMA_TRACE_HEAD) / sizeof(*file->events);
    return true;
}

/* Events end where the kind is none, unless a text follows a communicator: its bytes are no kind. */
static void find_end(trace_file_t *file)
{
    size_t i = 0;

    while (i < file->n && file->events[i].kind != DMA_TRACE_NONE && file->events[i].kind < DMA_TRACE_KINDS) {
        i++;
    }
    file->n = i;
}

static trace_comm_t *comm_of(const trace_file_t *file, uint16_t number)
{
    return number < file->ncomms ? &file->comms[number] : NULL;
}

static bool add_comm(trace_file_t *file, const dma_trace_event_t *event)
{
    if (event->comm >= file->ncomms) {
        trace_comm_t *more = realloc(file->comms, ((size_t)event->comm + 1) * sizeof(*more));

        if (!more) {
            return false;
        }
        memset(more + file->ncomms, 0, ((size_t)event->comm + 1 - file->ncomms) * sizeof(*more));
        file->comms = more;
        file->ncomms = (size_t)event->comm + 1;
    }
    file->comms[event->comm].rank = (int)(event->a >> 32);
    file->comms[event->comm].nranks = (int)(event->a & UINT32_MAX);
    file->comms[event->comm].inner = event->detail;
    file->comms[event->comm].identity = event->b;
    return true;
}

static void add_text(trace_comm_t *comm, const dma_trace_event_t *event)
{
    size_t used = strlen(comm->name), left = sizeof(comm->name) - 1 - used;
    char text[25] = "";

    memcpy(text, &event->at, 8);
    memcpy(text + 8, &event->a, 16);
    strncat(comm->name, text, left);
}

/* The place of a call, which is made if it is not there. */
static trace_call_t *make_call(trace_comm_t *comm, uint32_t seq)
{
    size_t at;

    if (!comm->ncalls) {
        comm->first = seq;
    }
    if (seq < comm->first || seq - comm->first > MOST_CALLS) {
        return NULL;
    }
    at = seq - comm->first;
    if (at >= comm->ncalls) {
        size_t room = comm->ncalls;

        if ((at + 1) / 1024 != room / 1024 || !comm->calls) {
            trace_call_t *more = realloc(comm->calls, ((at + 1) / 1024 + 1) * 1024 * sizeof(*more));

            if (!more) {
                return NULL;
            }
            comm->calls = more;
        }
        memset(comm->calls + comm->ncalls, 0, (at + 1 - comm->ncalls) * sizeof(*comm->calls));
        comm->ncalls = at + 1;
    }
    return &comm->calls[at];
}

trace_call_t *trace_call_of(const trace_file_t *file, const dma_trace_event_t *event)
{
    trace_comm_t *comm = comm_of(file, event->comm);
    trace_call_t *call;

    if (event->kind <= DMA_TRACE_TEXT || !comm || event->seq < comm->first ||
        event->seq - comm->first >= comm->ncalls) {
        return NULL;
    }
    call = &comm->calls[event->seq - comm->first];
    return call->begun && call->ended ? call : NULL;
}

static void extend(trace_span_t *span, uint64_t first, uint64_t last)
{
    span->first = span->last && span->first < (int64_t)first ? span->first : (int64_t)first;
    span->last = span->last > (int64_t)last ? span->last : (int64_t)last;
}

static void add_cores(trace_call_t *call, const dma_trace_event_t *event)
{
    extend(&call->cores, event->at, event->a);
    call->busy += (int64_t)event->b;
}

static void add_line(trace_call_t *call, const trace_comm_t *comm, const dma_trace_event_t *event)
{
    if (event->a == (uint64_t)comm->rank && (int64_t)event->at > call->line) {
        call->line = (int64_t)event->at;
    }
}

static void add_to_call(trace_call_t *call, const trace_comm_t *comm, const dma_trace_event_t *event)
{
    switch ((dma_trace_kind_t)event->kind) {
    case DMA_TRACE_PLAN:
        call->plan = (int64_t)event->at;
        call->by = event->detail;
        memcpy(call->variant, &event->a, 16);
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
        break;
    case DMA_TRACE_END:
        call->ended = true;
        call->end = (int64_t)event->at;
        call->status = event->detail;
        break;
    default:
        break;
    }
}

static bool add_event(trace_file_t *file, const dma_trace_event_t *event)
{
    trace_comm_t *comm = comm_of(file, event->comm);
    trace_call_t *call;

    if (event->kind == DMA_TRACE_COMM) {
        return add_comm(file, event);
    }
    if (!comm) {
        return true;
    }
    if (event->kind == DMA_TRACE_TEXT) {
        add_text(comm, event);
        return true;
    }
    if (event->kind == DMA_TRACE_BEGIN && (call = make_call(comm, event->seq))) {
        *call = (trace_call_t){.begun = true,
                               .coll = event->detail,
                               .seq = event->seq,
                               .bytes = event->a,
                               .begin = (int64_t)event->at,
                               .variant = "-"};
        return true;
    }
    if (event->seq >= comm->first && event->seq - comm->first < comm->ncalls) {
        call = &comm->calls[event->seq - comm->first];
        if (call->begun) {
            add_to_call(call, comm, event);
        }
    }
    return true;
}

static bool read_file(trace_set_t *set, const char *dir, const char *name)
{
    trace_file_t *more = realloc(set->files, (set->n + 1) * sizeof(*more)), *file;
    size_t bytes = strlen(dir) + strlen(name) + 2;

    if (!more) {
        return fail(name, "no memory");
    }
    set->files = more;
    file = &set->files[set->n];
    *file = (trace_file_t){.path = malloc(bytes)};
    if (!file->path) {
        return fail(name, "no memory");
    }
    snprintf(file->path, bytes, "%s/%s", dir, name);
    if (!map_file(file)) {
        free(file->path);
        return false;
    }
    set->n++;
    find_end(file);
    for (size_t i = 0; i < file->n; i++) {
        if (!add_event(file, &file->events[i])) {
            return fail(name, "no memory");
        }
    }
    return true;
}

/* ---- all files ---- */

static int compare_files(const void *a, const void *b)
{
    const trace_file_t *f = a, *g = b;
    int order = strncmp(f->head->job, g->head->job, sizeof(f->head->job));

    return order ? order : (f->head->rank > g->head->rank) - (f->head->rank < g->head->rank);
}

static bool ends_with_trace(const char *name)
{
    size_t n = strlen(name);

    return n > 6 && !strcmp(name + n - 6, ".trace");
}

static bool read_dir(trace_set_t *set, const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    bool good = true;

    if (!dir) {
        return fail(path, strerror(errno));
    }
    while (good && (entry = readdir(dir))) {
        good = !ends_with_trace(entry->d_name) || read_file(set, path, entry->d_name);
    }
    closedir(dir);
    return good;
}

bool trace_read(trace_set_t *set, char **dirs, int ndirs)
{
    *set = (trace_set_t){0};
    for (int i = 0; i < ndirs; i++) {
        if (!read_dir(set, dirs[i])) {
            return false;
        }
    }
    if (!set->n) {
        return fail(dirs[0], "there is no trace");
    }
    qsort(set->files, set->n, sizeof(*set->files), compare_files);
    return true;
}

void trace_free(trace_set_t *set)
{
    for (size_t i = 0; i < set->n; i++) {
        trace_file_t *file = &set->files[i];

        for (size_t k = 0; k < file->ncomms; k++) {
            free(file->comms[k].calls);
        }
        free(file->comms);
        free(file->path);
        munmap((void *)(uintptr_t)file->head, file->bytes);
    }
    free(set->files);
}
