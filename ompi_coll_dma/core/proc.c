/* The process: its arenas, the lists of communicators that progress advances and polls, reports to the user. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/comm.h"

#define NO_BYTES     "its limit is 0"
#define NOTICE_TURNS 32 /* dma_proc_poll_notices polls in one of so many calls */

/* ---- creation ---- */

/* Replaces a string parameter, which may be NULL, by a copy. */
static bool copy_string(const char **parameter, char **copy)
{
    *copy = *parameter ? strdup(*parameter) : NULL;
    if (*parameter && !*copy) {
        return false;
    }
    *parameter = *copy;
    return true;
}

static void free_proc(dma_proc_t *proc)
{
    free(proc->session_dir);
    free(proc->profile_path);
    free(proc->gpu_profile_path);
    free(proc->sysfs);
    free(proc->record);
    free(proc->net_profile_path);
    free(proc->trace_dir);
    free(proc);
}

/* ---- reports ---- */

typedef struct dma_kept_report {
    struct dma_kept_report *next;
    dma_report_t level;
    char topic[32], text[512];
} dma_kept_report_t;

static _Thread_local bool keeps_reports;

void dma_reports_keep(bool keep)
{
    keeps_reports = keep;
}

/* Without memory the report is lost. */
static void keep_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *text)
{
    dma_kept_report_t *report = malloc(sizeof(*report)), **link = &proc->kept;

    if (!report) {
        return;
    }
    *report = (dma_kept_report_t){.level = level};
    snprintf(report->topic, sizeof(report->topic), "%s", topic);
    snprintf(report->text, sizeof(report->text), "%s", text);
    pthread_mutex_lock(&proc->lock);
    while (*link) {
        link = &(*link)->next;
    }
    *link = report;
    atomic_store_explicit(&proc->keeps, true, memory_order_relaxed);
    pthread_mutex_unlock(&proc->lock);
}

static void print_kept(dma_proc_t *proc)
{
    dma_kept_report_t *list, *next;

    pthread_mutex_lock(&proc->lock);
    list = proc->kept;
    proc->kept = NULL;
    atomic_store_explicit(&proc->keeps, false, memory_order_relaxed);
    pthread_mutex_unlock(&proc->lock);
    for (; list; list = next) {
        next = list->next;
        proc->host->report(list->level, list->topic, list->text);
        free(list);
    }
}

void dma_proc_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (keeps_reports) {
        keep_report(proc, level, topic, text);
    } else {
        proc->host->report(level, topic, text);
    }
}

static const dma_route_t *const no_routes[] = {NULL};

static const int32_t no_listeners;
static const dma_events_t no_events = {.begin_listeners = &no_listeners, .end_listeners = &no_listeners};

dma_status_t dma_proc_create(const dma_proc_config_t *config, dma_proc_t **result)
{
    dma_proc_t *proc = calloc(1, sizeof(*proc));
    const char *session_dir = config->session_dir;

    if (!proc) {
        return DMA_ERR_NOMEM;
    }
    proc->host = config->host;
    pthread_mutex_init(&proc->own_counters.lock, NULL);
    proc->counters = config->counters ? config->counters : &proc->own_counters;
    proc->params = config->params;
    proc->events = config->events ? config->events : &no_events;
    dma_budget_init(&proc->budget, proc->counters, config->params.scratch_bytes, config->params.pinned_bytes);
    proc->runtime = config->runtime;
    proc->net_ops = config->net_ops;
    atomic_init(&proc->next_id, 1);
    proc->engines = config->engines;
    proc->routes = config->routes ? config->routes : no_routes;
    for (int i = 0; proc->routes[i] && !proc->memory; i++) {
        proc->memory = proc->routes[i]->memory;
    }
    dma_state_init(proc, config->job, config->rank);
    if (!copy_string(&session_dir, &proc->session_dir) || !copy_string(&proc->params.profile, &proc->profile_path) ||
        !copy_string(&proc->params.gpu_profile, &proc->gpu_profile_path) ||
        !copy_string(&proc->params.sysfs, &proc->sysfs) || !copy_string(&proc->params.record, &proc->record) ||
        !copy_string(&proc->params.net_profile, &proc->net_profile_path) ||
        !copy_string(&proc->params.trace, &proc->trace_dir)) {
        free_proc(proc);
        return DMA_ERR_NOMEM;
    }
    pthread_mutex_init(&proc->lock, NULL);
    pthread_mutex_init(&proc->device_lock, NULL);
    pthread_cond_init(&proc->device_opened, NULL);
    pthread_mutex_init(&proc->submitter_lock, NULL);
    pthread_mutex_init(&proc->net_lock, NULL);
    *result = proc;
    return DMA_OK;
}

static void destroy_arena(dma_arena_t *arena)
{
    dma_registry_remove(arena);
    dma_arena_destroy(arena);
}

void dma_proc_abandon(dma_proc_t *proc)
{
    for (int i = 0; proc->routes[i]; i++) {
        if (proc->routes[i]->proc_abandon) {
            proc->routes[i]->proc_abandon(proc);
        }
    }
}

void dma_proc_destroy(dma_proc_t *proc)
{
    dma_file_arena_t *next;

    for (int i = 0; proc->routes[i]; i++) { /* before the arenas: threads of routes use them */
        if (proc->routes[i]->proc_destroy) {
            proc->routes[i]->proc_destroy(proc);
        }
    }
    print_kept(proc);
    for (dma_file_arena_t *f = proc->retired; f; f = next) {
        next = f->next;
        destroy_arena(f->arena);
        free(f);
    }
    if (proc->arena) {
        destroy_arena(proc->arena);
    }
    dma_registry_drop_idle();
    dma_state_close(proc);
    if (proc->trace) {
        dma_trace_close(proc->trace);
    }
    pthread_mutex_destroy(&proc->lock);
    pthread_mutex_destroy(&proc->device_lock);
    pthread_cond_destroy(&proc->device_opened);
    pthread_mutex_destroy(&proc->submitter_lock);
    pthread_mutex_destroy(&proc->net_lock);
    free_proc(proc);
}

/* ---- arenas ---- */

static dma_status_t make_arena(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **arena,
                               dma_why_t *why)
{
    const char *what = "malloc";
    dma_status_t status = dma_arena_create(kind, bytes, dir, arena, &what);

    if (status == DMA_OK && (status = dma_registry_add(*arena)) != DMA_OK) {
        dma_arena_destroy(*arena);
        what = "malloc";
    }
    if (status != DMA_OK) {
        why->reason = DMA_REASON_arena_system;
        snprintf(why->text, sizeof(why->text), "%s: %s", what, strerror(errno));
    }
    return status;
}

dma_status_t dma_proc_arena(dma_proc_t *proc, dma_arena_t **arena, dma_why_t *why)
{
    pthread_mutex_lock(&proc->lock);
    if (!proc->arena && !proc->arena_failed.reason) {
        if (!proc->params.arena_bytes) {
            proc->arena_failed = dma_why(DMA_REASON_arena_limit, NO_BYTES);
        } else if (make_arena(DMA_ARENA_MEMFD, proc->params.arena_bytes, NULL, &proc->arena, &proc->arena_failed) !=
                   DMA_OK) {
            proc->arena = NULL;
        }
    }
    *arena = proc->arena;
    *why = proc->arena_failed;
    pthread_mutex_unlock(&proc->lock);
    return *arena ? DMA_OK : DMA_UNSUPPORTED;
}

/* Destroys retired file arenas that no reader uses any more; with proc->lock. */
static void destroy_unused_files(dma_proc_t *proc)
{
    for (dma_file_arena_t **link = &proc->retired; *link;) {
        dma_file_arena_t *f = *link;

        if (dma_arena_used(f->arena)) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        proc->file_bytes -= dma_arena_bytes(f->arena);
        destroy_arena(f->arena);
        free(f);
    }
}

/* Bytes that may still be taken; with proc->lock. The limit is for anonymous memory and files together. */
static size_t left_bytes(dma_proc_t *proc)
{
    size_t used = proc->file_bytes + (proc->arena ? dma_arena_used(proc->arena) : 0);

    return used < proc->params.arena_bytes ? proc->params.arena_bytes - used : 0;
}

size_t dma_proc_left(dma_proc_t *proc)
{
    size_t left;

    pthread_mutex_lock(&proc->lock);
    destroy_unused_files(proc);
    left = left_bytes(proc);
    pthread_mutex_unlock(&proc->lock);
    return left;
}

dma_status_t dma_proc_file_arena(dma_proc_t *proc, size_t bytes, dma_arena_t **arena, dma_why_t *why)
{
    dma_status_t status = DMA_UNSUPPORTED;

    pthread_mutex_lock(&proc->lock);
    destroy_unused_files(proc);
    if (bytes > left_bytes(proc)) {
        *why = dma_why(DMA_REASON_arena_limit, proc->params.arena_bytes ? NULL : NO_BYTES);
    } else if (make_arena(DMA_ARENA_FILE, bytes, proc->session_dir, arena, why) == DMA_OK) {
        proc->file_bytes += dma_arena_bytes(*arena);
        status = DMA_OK;
    }
    pthread_mutex_unlock(&proc->lock);
    return status;
}

void dma_proc_retire_file(dma_proc_t *proc, dma_arena_t *arena)
{
    dma_file_arena_t *f = malloc(sizeof(*f));

    dma_arena_unlink(arena);
    if (!f) {
        return; /* leak the mapping: peers may still read it */
    }
    pthread_mutex_lock(&proc->lock);
    *f = (dma_file_arena_t){.next = proc->retired, .arena = arena};
    proc->retired = f;
    pthread_mutex_unlock(&proc->lock);
}

/* Read as late as possible: it takes 20 us, and not every process has a set-up. */
dma_plain_t dma_proc_plain(dma_proc_t *proc)
{
    dma_plain_t plain;

    pthread_mutex_lock(&proc->lock);
    if (!proc->plain_read) {
        proc->plain = dma_plain_read();
        proc->plain_read = true;
    }
    plain = proc->plain;
    pthread_mutex_unlock(&proc->lock);
    return plain;
}

/* ---- progress ---- */

unsigned dma_proc_active(const dma_proc_t *proc)
{
    /* seq_cst: one total order with the flag of the caller, so that a thread that stops its progress
     * callback does not miss a task that another thread posts at the same time */
    return atomic_load_explicit(&proc->nactive, memory_order_seq_cst);
}

static void append_active(dma_proc_t *proc, dma_comm_t *comm)
{
    comm->previous_active = proc->active_last;
    comm->next_active = NULL;
    *(proc->active_last ? &proc->active_last->next_active : &proc->active) = comm;
    proc->active_last = comm;
}

static void unlink_active(dma_proc_t *proc, dma_comm_t *comm)
{
    *(comm->previous_active ? &comm->previous_active->next_active : &proc->active) = comm->next_active;
    *(comm->next_active ? &comm->next_active->previous_active : &proc->active_last) = comm->previous_active;
}

void dma_comm_set_active(dma_comm_t *comm, bool busy)
{
    dma_proc_t *proc = comm->proc;

    if (comm->is_active == busy) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    if (busy) {
        append_active(proc, comm);
    } else {
        unlink_active(proc, comm);
    }
    comm->is_active = busy;
    atomic_fetch_add_explicit(&proc->nactive, busy ? 1u : -1u, memory_order_seq_cst);
    pthread_mutex_unlock(&proc->lock);
}

int dma_proc_progress(dma_proc_t *proc)
{
    unsigned busy = dma_proc_active(proc);
    int completed = 0;

    if (__builtin_expect(atomic_load_explicit(&proc->keeps, memory_order_relaxed), 0)) {
        print_kept(proc);
    }
    for (unsigned i = 0; i < busy; i++) {
        dma_comm_t *comm;

        if (pthread_mutex_trylock(&proc->lock)) {
            break;
        }
        /* Move the first communicator to the end. The list may change as soon as its lock is free, but a communicator
         * is not destroyed while this thread holds its lock. */
        if ((comm = proc->active)) {
            unlink_active(proc, comm);
            append_active(proc, comm);
        }
        if (comm && !dma_comm_trylock(comm)) {
            comm = NULL;
        }
        pthread_mutex_unlock(&proc->lock);
        if (comm) {
            completed += dma_comm_advance(comm);
            dma_comm_watch(comm);
            dma_comm_unlock(comm);
        }
    }
    return completed;
}

void dma_comm_set_polled(dma_comm_t *comm, bool listens)
{
    dma_proc_t *proc = comm->proc;
    dma_comm_t **link = &proc->polled;

    if (comm->is_polled == listens) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    while (*link && *link != comm) {
        link = &(*link)->next_polled;
    }
    *link = listens ? comm : comm->next_polled; /* append or remove */
    comm->next_polled = NULL;
    comm->is_polled = listens;
    pthread_mutex_unlock(&proc->lock);
}

/* ---- notices ---- */

/* The next communicator of the list, locked and without a call. NULL: it is locked or has a call, or the list is empty.
 * */
static dma_comm_t *next_polled_comm(dma_proc_t *proc)
{
    dma_comm_t *comm, **link = &proc->polled;

    if (pthread_mutex_trylock(&proc->lock)) {
        return NULL;
    }
    if ((comm = proc->polled)) { /* move the first to the end */
        proc->polled = comm->next_polled;
        comm->next_polled = NULL;
        while (*link) {
            link = &(*link)->next_polled;
        }
        *link = comm;
    }
    if (comm && !dma_comm_trylock(comm)) {
        comm = NULL;
    }
    pthread_mutex_unlock(&proc->lock);
    if (comm && comm->head) { /* waiting for the call polls the notices too */
        dma_comm_unlock(comm);
        comm = NULL;
    }
    return comm;
}

void dma_proc_poll_notices(dma_proc_t *proc)
{
    unsigned turn = atomic_load_explicit(&proc->notice_polls, memory_order_relaxed) +
                    1; /* two threads at once may count one call: harmless */
    dma_comm_t *comm;
    dma_status_t status;

    atomic_store_explicit(&proc->notice_polls, turn, memory_order_relaxed);
    if (turn % NOTICE_TURNS || !(comm = next_polled_comm(proc))) {
        return;
    }
    if ((status = comm->route->poll_notices(comm)) != DMA_OK) {
        dma_comm_fail(comm, status, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(status));
    }
    dma_comm_unlock(comm);
}
