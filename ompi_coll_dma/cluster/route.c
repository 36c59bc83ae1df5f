/* The cluster route: creation, evidence of failure, destruction. See cluster.h and core/route.h. */
#include <stdlib.h>
#include <string.h>

#include "cluster/cluster.h"
#include "cluster/relay.h"

#define POLL_TURNS              32 /* turns of a wait between two polls of notices and poison; a power of two, */
#define PROGRESS_TURNS          8  /* turns of a wait between two runs of the progress engine */
#define POLLS_PER_PROCESS_CHECK 64 /* and so are the polls between two checks whether the processes of the node exist */

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
    c->net_ops = comm->proc->net_ops;
    c->host = comm->host;
    c->handle = comm->handle;
    c->first = (uint32_t)config->first;
    c->primary = config->parent ? config->parent->cluster : c;
    pthread_mutex_init(&c->lock, NULL);
    comm->cluster = c;
    return DMA_OK;
}

static void unregister_comm(dma_cluster_t *c)
{
    if (c->registered) {
        c->net_ops->comm_unregister(c->net, c->id, c->owner);
    }
}

static void cluster_destroy(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;

    dma_cluster_end_call(c);
    if (c->exchanging) {
        dma_bootstrap_end(&c->exchange);
    }
    if (c->primary == c) {
        dma_cluster_close_peers(c);
    }
    unregister_comm(c);
    dma_cluster_destroy_node_comm(c);
    dma_cluster_free_plans(c);
    dma_node_map_free(&c->node_map);
    if (c->filled) {
        dma_proc_report(comm->proc, DMA_REPORT_INFO, "relay",
                        "device memory of %s: %llu messages through slots, %llu copied while others were on the way",
                        comm->text, (unsigned long long)c->filled, (unsigned long long)c->overlapped);
    }
    dma_lanes_free(c);
    free(c->call.node_counts);
    free(c->call.node_arrays);
    pthread_mutex_destroy(&c->lock);
    free(c);
    comm->cluster = NULL;
}

/* ---- failure ---- */

/* The status that a rank of the node has failed with, or DMA_OK. */
static dma_status_t node_comm_error(const dma_comm_t *node_comm)
{
    if (!node_comm) {
        return DMA_OK;
    }
    return node_comm->state == DMA_COMM_POISONED ? node_comm->error : dma_window_poisoned(&node_comm->window);
}

/* Evidence that a rank of the node has failed or that its process has ended. */
static dma_status_t check_node(dma_cluster_t *c)
{
    const dma_comm_t *node_comm = c->node_comm;
    dma_status_t poison = node_comm_error(node_comm);

    if (node_comm && c->running_task && poison == DMA_OK &&
        dma_turns_passed(c->polled_turns, c->watch_turns, POLL_TURNS * POLLS_PER_PROCESS_CHECK) &&
        dma_window_find_dead(&node_comm->window, dma_comm_current(node_comm)) >= 0) {
        poison = DMA_ERR_PEER;
    }
    return poison;
}

static dma_status_t cluster_poll_notices(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    int alarm = atomic_load(&c->primary->alarm);
    dma_status_t status;

    if (alarm) {
        return (dma_status_t)alarm;
    }
    dma_cluster_announce_call(c);
    status = dma_cluster_poll_notices(c);
    if (status == DMA_OK && c->primary != c) {
        status = node_comm_error(c->primary->node_comm);
    }
    return status == DMA_OK ? check_node(c) : status;
}

/* A READY communicator polls, and so does the set-up of a channel. */
static void cluster_watch(dma_comm_t *comm)
{
    dma_cluster_t *c = comm->cluster;
    bool setting_up_channel = comm->state == DMA_COMM_SETUP && c->primary != c;
    dma_status_t status;

    if (comm->state != DMA_COMM_READY && !setting_up_channel) {
        return;
    }
    c->watch_turns += comm->turns;
    if (!dma_turns_passed(c->polled_turns, c->watch_turns, POLL_TURNS)) {
        return;
    }
    if ((status = cluster_poll_notices(comm)) != DMA_OK) {
        dma_comm_fail(comm, status, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(status));
    }
    c->polled_turns = c->watch_turns;
}

static bool cluster_may_report(dma_comm_t *comm)
{
    dma_comm_t *node_comm = comm->cluster->node_comm;

    return !node_comm || dma_window_claim_report(&node_comm->window, DMA_REPORT_PARENT, (uint32_t)comm->head->run.seq);
}

static void poison_node_comm(dma_comm_t *node_comm, dma_status_t status)
{
    if (!node_comm) {
        return;
    }
    dma_comm_lock(node_comm);
    /* in SETUP, other ranks may be READY with the block of this rank */
    if (node_comm->state == DMA_COMM_READY || node_comm->state == DMA_COMM_SETUP) {
        dma_comm_fail(node_comm, status, "%s has failed on another node or in a step between nodes", node_comm->text);
    }
    dma_comm_unlock(node_comm);
}

static void cluster_explain(dma_comm_t *comm, dma_status_t status)
{
    if (status == DMA_ERR_PEER || status == DMA_ERR_NET) {
        dma_cluster_append_net_error(comm);
    }
}

static void cluster_stop(dma_comm_t *comm, dma_status_t status)
{
    dma_cluster_t *c = comm->cluster;

    poison_node_comm(c->node_comm, status);
    if (c->primary != c) {
        poison_node_comm(c->primary->node_comm, status);
    }
    if (c->primary->net && c->primary->owner + c->primary->id) { /* a number has been agreed: it may have peers */
        dma_cluster_send_alarm(c, status);
    }
    unregister_comm(c);
    unregister_comm(c->primary);
    dma_cluster_end_call(c);
}

/* ---- the route ---- */

static dma_wait_t cluster_waits_for(const dma_comm_t *comm, const dma_task_t *task)
{
    dma_wait_t wait;

    if (!task) {
        return dma_cluster_setup_waits_for(comm);
    }
    wait = dma_lanes_waits_for(comm->cluster);
    return wait.n ? wait : dma_cluster_node_waits_for(comm->cluster);
}

static const char *cluster_phase(const dma_comm_t *comm, const dma_task_t *task)
{
    return task ? dma_cluster_call_phase(comm, task) : dma_cluster_setup_phase(comm);
}

static void cluster_proc_destroy(dma_proc_t *proc)
{
    if (proc->net) {
        proc->net_ops->close(proc->net);
    }
}

/* Polling a call runs the network's progress, which is a system call if the network is TCP. The progress engine can
 * make several system calls, and a rank that waits for a message of this rank would wait for them too. So it does not
 * run in every turn. */
static void cluster_pause(dma_comm_t *comm, dma_pause_t *pause, unsigned turn)
{
    bool yield = comm->proc->params.yield;

    if (turn % PROGRESS_TURNS == PROGRESS_TURNS - 1 || (yield && dma_pause(pause))) {
        comm->host->progress();
    } else if (!yield) {
        dma_cpu_pause();
    }
}

/* The plan of a call is found when it begins, and gone when it ends. */
static void cluster_predict(const dma_comm_t *comm, const dma_task_t *task, dma_prediction_t *prediction)
{
    const dma_cluster_t *c = comm->cluster;

    if (c && c->variant_seq == task->run.seq) {
        prediction->variant = DMA_COUNT_VARIANTS + (int32_t)c->variant;
        prediction->cost_ps =
            dma_cluster_variants[c->variant]->cost(&c->profile, &c->node_map, task->coll, task->bytes);
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
    .setup_cancel = dma_cluster_setup_cancel,
    .explain = cluster_explain,
    .stop = cluster_stop,
    .watch = cluster_watch,
    .may_report = cluster_may_report,
    .poll_notices = cluster_poll_notices,
    .pause = cluster_pause,
    .advance = dma_cluster_advance,
    .waits_for = cluster_waits_for,
    .phase = cluster_phase,
    .position = dma_cluster_position,
    .predict = cluster_predict,
};
