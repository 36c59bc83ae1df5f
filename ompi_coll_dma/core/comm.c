/* Communicators: creation and destruction. */
#include "core/comm.h"

#include <stdlib.h>
#include <string.h>

static const bool one_thread = false;

/* ---- creation and state ---- */

static const dma_route_t *find_route(const dma_proc_t *proc, const dma_comm_config_t *config)
{
    for (int i = 0; proc->routes[i]; i++) {
        if (proc->routes[i]->serves && proc->routes[i]->serves(config)) {
            return proc->routes[i];
        }
    }
    return config->nranks == 1 ? &dma_route_self : &dma_route_host;
}

dma_status_t dma_comm_create(dma_proc_t *proc, const dma_comm_config_t *config, dma_comm_t **result)
{
    dma_comm_t *comm = calloc(1, sizeof(*comm));
    dma_status_t status;

    if (!comm) {
        return DMA_ERR_NOMEM;
    }
    comm->proc = proc;
    comm->turns = 1;
    comm->host = proc->host;
    comm->handle = config->handle;
    comm->rank = config->rank;
    comm->nranks = config->nranks;
    comm->threads = config->threads ? config->threads : &one_thread;
    comm->nodes = config->nodes;
    comm->first = config->first;
    comm->first_calls = config->first_calls;
    comm->row = &proc->state.nowhere;
    comm->parent = config->parent;
    comm->engine = &dma_engine_host;
    comm->route = find_route(proc, config);
    if (atomic_load_explicit(&proc->beside_device, memory_order_relaxed)) {
        dma_comm_expect_device(comm);
    }
    comm->route_calls = comm->route->advance ? comm->route : NULL;
    comm->text = strdup(config->text ? config->text : "a communicator");
    if (!comm->text) {
        status = DMA_ERR_NOMEM;
        goto free_comm;
    }
    if (comm->route->create && (status = comm->route->create(comm, config)) != DMA_OK) {
        goto free_text;
    }
    comm->counts.owner = config->owner ? config->owner : config->handle;
    comm->counts.window = &comm->window;
    comm->counts.nranks = config->nranks;
    dma_comm_counts_begin(&comm->counts, proc->counters);
    comm->begin_listeners = proc->events->begin_listeners;
    comm->end_listeners = proc->events->end_listeners;
    *result = comm;
    return DMA_OK;

free_text:
    free(comm->text);
free_comm:
    free(comm);
    return status;
}

void dma_comm_attach(dma_comm_t *comm, const dma_route_t *route)
{
    comm->attached = route;
}

/* To the communicator that a channel belongs to. */
static void hand_counts_over(dma_comm_t *comm)
{
    if (comm->parent) {
        dma_comm_lock(comm->parent);
        dma_comm_counts_end(&comm->counts, comm->proc->counters, &comm->parent->counts);
        dma_comm_unlock(comm->parent);
    } else {
        dma_comm_counts_end(&comm->counts, comm->proc->counters, NULL);
    }
}

void dma_comm_destroy(dma_comm_t *comm)
{
    dma_comm_lock(comm);
    dma_comm_set_active(comm, false);
    dma_comm_set_polled(comm, false);
    dma_setup_drop(comm);
    if (comm->route->destroy) {
        comm->route->destroy(comm);
    }
    if (comm->attached) {
        comm->attached->destroy(comm);
    }
    dma_state_give_back(comm); /* the routes have looked at the state */
    if (comm->window.peers) {
        dma_window_leave(&comm->window, &comm->proc->lock);
        free(comm->window.peers);
        free(comm->window.acks);
    }
    if (comm->file_arena) {
        dma_proc_retire_file(comm->proc, comm->file_arena);
    }
    dma_plan_cache_free(&comm->plans);
    free(comm->stream);
    free(comm->arrays);
    dma_staging_free(comm->staging[DMA_SIDE_SEND]);
    dma_staging_free(comm->staging[DMA_SIDE_RECV]);
    hand_counts_over(comm);
    free(comm->text);
    free(comm);
}

dma_comm_state_t dma_comm_state(const dma_comm_t *comm)
{
    return comm->state;
}

const char *dma_comm_reason(const dma_comm_t *comm)
{
    return comm->reason;
}
