/* The process: creation and destruction. */
#include <stdlib.h>
#include <string.h>

#include "core/comm.h"

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
    for (int i = 0; proc->routes[i]; i++) { /* before the arenas: threads of routes use them */
        if (proc->routes[i]->proc_destroy) {
            proc->routes[i]->proc_destroy(proc);
        }
    }
    dma_proc_print_kept(proc);
    dma_proc_close_arenas(proc);
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
