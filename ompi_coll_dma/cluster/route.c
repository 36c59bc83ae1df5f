/* The cluster route: creation, evidence of failure, the end. See cluster.h and core/route.h. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"

#define LOOK_TURNS     32 /* turns between two looks at alarms and poison */
#define PROGRESS_TURNS 8  /* turns of a wait between two runs of the progress engine */
#define DEAD_LOOKS     64 /* looks between two at the processes of our node */

static bool cluster_serves(const dma_comm_config_t *config)
{
    return config->nodes;
}

static dma_status_t cluster_create(dma_comm_t *comm, const dma_comm_config_t *config)
{
    dma_cluster_t *c = calloc(1, sizeof(*c));

    if (!c) {
        return DMA_ERR_NOMEM;
    }
    c->proc = comm->proc;
    c->wire = comm->proc->wire;
    c->host = comm->host;
    c->handle = comm->handle;
    c->first = (uint32_t)config->first;
    c->root = config->parent ? config->parent->cluster : c;
    pthread_mutex_init(&c->lock, NULL);
    comm->cluster = c;
    return DMA_OK;
}

static void leave(dma_cluster_t *c)
{
    if (c->joined) {
        c->wire->comm_unregister(c->net, c->id, c->owner);
    }
}

static void cluster_destroy(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    dma_cluster_end_call(c);
    if (c->exchanging) {
        dma_bootstrap_end(&c->exchange);
    }
    if (c->root == c) {
        dma_cluster_close_peers(c);
    }
    leave(c);
    dma_cluster_drop_local(c);
    dma_cluster_free_plans(c);
    dma_node_map_free(&c->node_map);
    if (c->filled) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "relay",
                        "device memory of %s: %llu messages through slots, %llu copied while others were on the way",
                        comm->text, (unsigned long long)c->filled, (unsigned long long)c->overlapped);
    }
    dma_lanes_free(c);
    free(c->call.numbers);
    free(c->call.arrays);
    pthread_mutex_destroy(&c->lock);
    free(c);
    comm->cluster = NULL;
}

/* ---- failure ---- */

void dma_cluster_append_trouble(dma_comm_t *comm)
{
    const dma_cluster_t *c = comm->cluster;
    char words[DMA_WHY_BYTES] = "";
    size_t at = strlen(comm->reason);

    if (c->net) {
        c->wire->last_error(c->net, words, sizeof(words));
    }
    if (words[0]) {
        snprintf(comm->reason + at, sizeof(comm->reason) - at, " (the last trouble between nodes: %s)", words);
    }
}

/* What a rank of our node has failed with. */
static dma_status_t poison_of(const dma_comm_t *local)
{
    if (!local) {
        return DMA_OK;
    }
    return local->state == DMA_COMM_POISONED ? local->error : dma_window_poisoned(&local->window);
}

/* Our node's ranks: one that has failed, one that is gone. */
static dma_status_t look_inside(dma_cluster_t *c)
{
    const dma_comm_t *local = c->local;
    dma_status_t poison = poison_of(local);

    if (local && c->running && poison == DMA_OK && c->looked % (LOOK_TURNS * DEAD_LOOKS) == 0 &&
        dma_window_find_dead(&local->window, dma_comm_current(local)) >= 0) {
        poison = DMA_ERR_PEER;
    }
    return poison;
}

static dma_status_t cluster_poll_notices(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int alarm = atomic_load(&c->root->alarm);
    dma_status_t status;

    if (alarm) {
        return (dma_status_t)alarm;
    }
    dma_cluster_announce_call(c);
    status = dma_cluster_poll_notices(c);
    if (status == DMA_OK && c->root != c) {
        status = poison_of(c->root->local);
    }
    return status == DMA_OK ? look_inside(c) : status;
}

/* In a READY communicator, and in the set-up of a channel. */
static void cluster_watch(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    bool joining = comm->state == DMA_COMM_SETUP && c->root != c;
    dma_status_t status;

    if ((comm->state != DMA_COMM_READY && !joining) || ++c->looked % LOOK_TURNS) {
        return;
    }
    if ((status = cluster_poll_notices(comm)) != DMA_OK) {
        dma_comm_fail(comm, status, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(status));
    }
}

static void poison(dma_comm_t *local, dma_status_t status)
{
    if (!local) {
        return;
    }
    dma_comm_lock(local);
    if (local->state == DMA_COMM_READY || local->state == DMA_COMM_SETUP) { /* some may be READY with our block */
        dma_comm_fail(local, status, "%s has failed on another node or in a step between nodes", local->text);
    }
    dma_comm_unlock(local);
}

static void cluster_explain(dma_comm_t *comm, dma_status_t status)
{
    if (status == DMA_ERR_PEER || status == DMA_ERR_NET) {
        dma_cluster_append_trouble(comm);
    }
}

/* Nothing of it moves any more, and all peers that can be told are told. */
static void cluster_stop(dma_comm_t *comm, dma_status_t status)
{
    dma_cluster_t *c = comm->cluster;

    poison(c->local, status);
    if (c->root != c) {
        poison(c->root->local, status);
    }
    if (c->root->net && c->root->owner + c->root->id) { /* its peers are known by its number */
        dma_cluster_send_alarm(c, status);
    }
    leave(c);
    leave(c->root);
    dma_cluster_end_call(c);
}

/* ---- the route ---- */

dma_status_t dma_proc_network(dma_proc_t *proc, void **net)
{
    pthread_mutex_lock(&proc->lock);
    if (proc->wire && !proc->net_tried) {
        proc->net_tried = true;
        if (proc->wire->open(&proc->net) != DMA_OK) {
            proc->net = NULL;
        }
    }
    *net = proc->net;
    pthread_mutex_unlock(&proc->lock);
    return *net ? DMA_OK : DMA_UNSUPPORTED;
}

static void cluster_proc_destroy(dma_proc_t *proc)
{
    if (proc->net) {
        proc->wire->close(proc->net);
    }
    dma_relays_destroy(proc); /* after the network, which may have had some of their slots */
}

/* A look moves the network on by itself, with a system call where the network is TCP. Progress can cost several system calls,
 * and a rank that waits for a message of ours would wait for them too. So not every turn runs progress. */
static void cluster_pause(dma_comm_t *comm, unsigned turn)
{
    if (turn % PROGRESS_TURNS == PROGRESS_TURNS - 1) {
        comm->host->progress();
    } else if (comm->proc->params.yield) {
        sched_yield();
    } else {
        dma_cpu_pause();
    }
}

const dma_route_t dma_route_cluster = {
    .name = "cluster",
    .uses_device_memory = true,
    .proc_destroy = cluster_proc_destroy,
    .serves = cluster_serves,
    .create = cluster_create,
    .destroy = cluster_destroy,
    .setup_begin = dma_cluster_setup_begin,
    .setup_advance = dma_cluster_setup_advance,
    .explain = cluster_explain,
    .stop = cluster_stop,
    .watch = cluster_watch,
    .poll_notices = cluster_poll_notices,
    .pause = cluster_pause,
    .advance = dma_cluster_advance,
    .waits_for = dma_cluster_waits_for,
};
