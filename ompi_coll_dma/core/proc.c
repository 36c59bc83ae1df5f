/* The process: its arenas, its communicators with work, its warnings. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/comm.h"

#define NOTICE_TURNS 32 /* calls of dma_proc_poll_notices from one look to the next */

/* Our own copy of a string parameter, which may be NULL. */
static bool keep(const char **parameter, char **copy)
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
    free(proc->net_profile_path);
    free(proc);
}

static const dma_route_t *const no_routes[] = {NULL};

dma_status_t dma_proc_create(const dma_proc_config_t *config, dma_proc_t **result)
{
    dma_proc_t *proc = calloc(1, sizeof(*proc));
    const char *session_dir = config->session_dir;

    if (!proc) {
        return DMA_ERR_NOMEM;
    }
    proc->host = config->host;
    proc->params = config->params;
    proc->runtime = config->runtime;
    proc->net_ops = config->net_ops;
    atomic_init(&proc->next_id, 1);
    proc->engines = config->engines;
    proc->routes = config->routes ? config->routes : no_routes;
    for (int i = 0; proc->routes[i] && !proc->memory; i++) {
        proc->memory = proc->routes[i]->memory;
    }
    if (!keep(&session_dir, &proc->session_dir) || !keep(&proc->params.profile, &proc->profile_path) ||
        !keep(&proc->params.gpu_profile, &proc->gpu_profile_path) || !keep(&proc->params.sysfs, &proc->sysfs) ||
        !keep(&proc->params.net_profile, &proc->net_profile_path)) {
        free_proc(proc);
        return DMA_ERR_NOMEM;
    }
    pthread_mutex_init(&proc->lock, NULL);
    pthread_mutex_init(&proc->device_lock, NULL);
    *result = proc;
    return DMA_OK;
}

static void drop_arena(dma_arena_t *arena)
{
    dma_registry_remove(arena);
    dma_arena_destroy(arena);
}

void dma_proc_destroy(dma_proc_t *proc)
{
    dma_file_arena_t *next;

    for (dma_file_arena_t *f = proc->retired; f; f = next) {
        next = f->next;
        drop_arena(f->arena);
        free(f);
    }
    if (proc->arena) {
        drop_arena(proc->arena);
    }
    for (int i = 0; proc->routes[i]; i++) {
        if (proc->routes[i]->proc_destroy) {
            proc->routes[i]->proc_destroy(proc);
        }
    }
    dma_registry_drop_idle();
    pthread_mutex_destroy(&proc->lock);
    pthread_mutex_destroy(&proc->device_lock);
    free_proc(proc);
}

/* On failure `why` gets the reason in words. */
static dma_status_t make_arena(dma_arena_kind_t kind, size_t bytes, const char *dir, dma_arena_t **arena, char *why)
{
    const char *what = "malloc";
    dma_status_t status = dma_arena_create(kind, bytes, dir, arena, &what);

    if (status == DMA_OK && (status = dma_registry_add(*arena)) != DMA_OK) {
        dma_arena_destroy(*arena);
        what = "malloc";
    }
    if (status != DMA_OK) {
        snprintf(why, DMA_WHY_BYTES, "%s: %s", what, strerror(errno));
    }
    return status;
}

dma_status_t dma_proc_arena(dma_proc_t *proc, dma_arena_t **arena, char *why)
{
    pthread_mutex_lock(&proc->lock);
    if (!proc->arena && !proc->arena_failed[0]) {
        if (!proc->params.arena_bytes) {
            snprintf(proc->arena_failed, DMA_WHY_BYTES, "its limit is 0");
        } else if (make_arena(DMA_ARENA_MEMFD, proc->params.arena_bytes, NULL, &proc->arena, proc->arena_failed) !=
                   DMA_OK) {
            proc->arena = NULL;
        }
    }
    *arena = proc->arena;
    snprintf(why, DMA_WHY_BYTES, "%s", proc->arena_failed);
    pthread_mutex_unlock(&proc->lock);
    return *arena ? DMA_OK : DMA_UNSUPPORTED;
}

/* With the lock: file arenas that nobody reads any more. */
static void sweep_files(dma_proc_t *proc)
{
    for (dma_file_arena_t **link = &proc->retired; *link;) {
        dma_file_arena_t *f = *link;

        if (dma_arena_used(f->arena)) {
            link = &f->next;
            continue;
        }
        *link = f->next;
        proc->file_bytes -= dma_arena_bytes(f->arena);
        drop_arena(f->arena);
        free(f);
    }
}

/* With the lock: the limit holds for anonymous memory and files together. */
static size_t left_bytes(dma_proc_t *proc)
{
    size_t used = proc->file_bytes + (proc->arena ? dma_arena_used(proc->arena) : 0);

    return used < proc->params.arena_bytes ? proc->params.arena_bytes - used : 0;
}

size_t dma_proc_left(dma_proc_t *proc)
{
    size_t left;

    pthread_mutex_lock(&proc->lock);
    sweep_files(proc);
    left = left_bytes(proc);
    pthread_mutex_unlock(&proc->lock);
    return left;
}

dma_status_t dma_proc_file_arena(dma_proc_t *proc, size_t bytes, dma_arena_t **arena, char *why)
{
    dma_status_t status = DMA_UNSUPPORTED;

    pthread_mutex_lock(&proc->lock);
    sweep_files(proc);
    if (bytes > left_bytes(proc)) {
        snprintf(why, DMA_WHY_BYTES, "its limit is reached");
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
        return; /* stays mapped: its peers may still read it */
    }
    pthread_mutex_lock(&proc->lock);
    *f = (dma_file_arena_t){.next = proc->retired, .arena = arena};
    proc->retired = f;
    pthread_mutex_unlock(&proc->lock);
}

void dma_proc_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    proc->host->report(level, topic, text);
}

unsigned dma_proc_active(const dma_proc_t *proc)
{
    /* in one order with what the caller goes by: who stops looking here must not overlook what is posted meanwhile */
    return atomic_load_explicit(&proc->nbusy, memory_order_seq_cst);
}

static void append_busy(dma_proc_t *proc, dma_comm_t *comm)
{
    comm->previous_busy = proc->busy_last;
    comm->next_busy = NULL;
    *(proc->busy_last ? &proc->busy_last->next_busy : &proc->busy) = comm;
    proc->busy_last = comm;
}

static void unlink_busy(dma_proc_t *proc, dma_comm_t *comm)
{
    *(comm->previous_busy ? &comm->previous_busy->next_busy : &proc->busy) = comm->next_busy;
    *(comm->next_busy ? &comm->next_busy->previous_busy : &proc->busy_last) = comm->previous_busy;
}

void dma_comm_busy(dma_comm_t *comm, bool busy)
{
    dma_proc_t *proc = comm->proc;

    if (comm->is_busy == busy) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    if (busy) {
        append_busy(proc, comm);
    } else {
        unlink_busy(proc, comm);
    }
    comm->is_busy = busy;
    atomic_fetch_add_explicit(&proc->nbusy, busy ? 1u : -1u, memory_order_seq_cst);
    pthread_mutex_unlock(&proc->lock);
}

int dma_proc_progress(dma_proc_t *proc)
{
    unsigned busy = dma_proc_active(proc);
    int completed = 0;

    for (unsigned i = 0; i < busy; i++) {
        dma_comm_t *comm;

        if (pthread_mutex_trylock(&proc->lock)) {
            break;
        }
        /* The first becomes the last. The list may change as soon as its lock is free, but a communicator whose lock we
         * have stays. */
        if ((comm = proc->busy)) {
            unlink_busy(proc, comm);
            append_busy(proc, comm);
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

void dma_comm_set_listening(dma_comm_t *comm, bool listens)
{
    dma_proc_t *proc = comm->proc;
    dma_comm_t **link = &proc->listening;

    if (comm->listens == listens) {
        return;
    }
    pthread_mutex_lock(&proc->lock);
    while (*link && *link != comm) {
        link = &(*link)->next_listening;
    }
    *link = listens ? comm : comm->next_listening; /* as the last, or out of the list */
    comm->next_listening = NULL;
    comm->listens = listens;
    pthread_mutex_unlock(&proc->lock);
}

/* The next one, locked and idle: it stays. NULL: it is busy, or there is none. */
static dma_comm_t *next_to_listen(dma_proc_t *proc)
{
    dma_comm_t *comm, **link = &proc->listening;

    if (pthread_mutex_trylock(&proc->lock)) {
        return NULL;
    }
    if ((comm = proc->listening)) { /* the first becomes the last */
        proc->listening = comm->next_listening;
        comm->next_listening = NULL;
        while (*link) {
            link = &(*link)->next_listening;
        }
        *link = comm;
    }
    if (comm && !dma_comm_trylock(comm)) {
        comm = NULL;
    }
    pthread_mutex_unlock(&proc->lock);
    if (comm && comm->head) { /* its wait polls them */
        dma_comm_unlock(comm);
        comm = NULL;
    }
    return comm;
}

void dma_proc_poll_notices(dma_proc_t *proc)
{
    unsigned turn =
        atomic_load_explicit(&proc->listened, memory_order_relaxed) + 1; /* of two threads one may be missed */
    dma_comm_t *comm;
    dma_status_t status;

    atomic_store_explicit(&proc->listened, turn, memory_order_relaxed);
    if (turn % NOTICE_TURNS || !(comm = next_to_listen(proc))) {
        return;
    }
    if ((status = comm->route->poll_notices(comm)) != DMA_OK) {
        dma_comm_fail(comm, status, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(status));
    }
    dma_comm_unlock(comm);
}
