/*
 * Waiting, and what a wait looks out for.
 *
 * A blocking call spins for a moment, since a peer that is on its way is here within a microsecond. Then it runs the
 * progress engine between looks: the peer may need a message of ours before it can come. Where ranks outnumber the cores
 * the moment is nothing, and the core is given to the rank that is waited for.
 *
 * Late is not dead. No clock ends a wait for a peer, unless the user has set one (entry_timeout): after warn_seconds one
 * line says who waits for whom. Errors come from evidence: a rank that has poisoned the communicator, a process that is
 * gone.
 */
#include <sched.h>
#include <stdio.h>

#include "cluster/cluster.h"
#include "core/comm.h"
#include "device/device.h"

#define SPINS        400   /* looks before the first progress: some microseconds */
#define SWITCHES     8     /* looks before progress where ranks share cores, with a switch in between, or over nodes */
#define LONG         10000 /* turns after which a wait is not short any more */
#define POISON_TURNS 64    /* turns between two looks at the peers' poison */
#define CLOCK_TURNS  128   /* turns between two looks at the clock */
#define DEAD_SECONDS 0.05  /* between two looks at the peers' processes: a system call each */

/* The first rank that has not entered the oldest call, or -1. */
static int missing(const dma_comm_t *comm)
{
    if (comm->state == DMA_COMM_READY && comm->head && comm->head->device && comm->head->device->frozen) {
        return dma_device_not_ready(comm, comm->head);
    }
    for (int r = 0; comm->state == DMA_COMM_READY && !comm->cluster && comm->head && r < comm->nranks; r++) {
        if (r == comm->rank) {
            continue;
        }
        const dma_desc_t *d = dma_window_desc(&comm->window, r, comm->head->run.seq);

        if (atomic_load_explicit(&d->seq, memory_order_acquire) != (uint32_t)comm->head->run.seq) {
            return r;
        }
    }
    return -1;
}

/* A rank whose flag or, between nodes, message the oldest call waits for, or -1. */
static int holding(const dma_comm_t *comm)
{
    const dma_task_t *task = comm->state == DMA_COMM_READY ? comm->head : NULL;

    if (comm->cluster) {
        return dma_lanes_waits_for(comm->cluster);
    }
    if (!task || atomic_load_explicit(&task->state, memory_order_relaxed) != DMA_TASK_RUNNING) {
        return -1;
    }
    if (task->device && task->device->phase < DEVICE_RUN) {
        return dma_device_holding(comm, task);
    }
    for (uint32_t i = 0; i < task->run.plan->nprogs; i++) {
        const dma_cursor_t *c = &task->run.cursors[i];
        const dma_op_t *op = &task->run.plan->progs[i].ops[c->pc];

        if (!c->ended && op->code == DMA_OP_WAIT && op->flag.rank != comm->rank) {
            return op->flag.rank;
        }
    }
    return -1;
}

static void report_late(dma_comm_t *comm, double seconds)
{
    static const char *const names[] = {"all-gather", "all-gather-v", "all-to-all", "all-to-all-v"};
    int rank = missing(comm);
    bool entered = rank < 0;
    char what[96] = "the set-up", whom[64] = "";

    if (comm->head) {
        snprintf(what, sizeof(what), "%s, call %llu", names[comm->head->coll], (unsigned long long)comm->head->run.seq);
    }
    if (entered) {
        rank = holding(comm);
    }
    if (rank >= 0 && comm->cluster) {
        snprintf(whom, sizeof(whom), " for a message of rank %d", rank);
    } else if (rank >= 0) {
        snprintf(whom, sizeof(whom), " for rank %d, which %s", rank, entered ? "has entered it" : "has not entered it");
    }
    dma_proc_report(comm->proc, DMA_REPORT_WARN, "late", "rank %d has waited %.1f s in %s on %s%s; it waits on",
                    comm->rank, seconds, what, comm->text, whom);
}

static void watch_clock(dma_comm_t *comm)
{
    const dma_params_t *params = &comm->proc->params;
    double now = dma_now();
    int rank;

    if (!comm->since) {
        comm->since = comm->dead_checked = now;
    }
    if (comm->state == DMA_COMM_READY && !comm->cluster && now - comm->dead_checked > DEAD_SECONDS) {
        comm->dead_checked = now;
        rank = dma_window_find_dead(&comm->window, dma_comm_current(comm));
        if (rank >= 0) {
            /* its last words may have arrived after our last look */
            dma_tasks_advance(comm);
            if (comm->head) {
                dma_comm_fail(comm, DMA_ERR_PEER, "rank %d of %s is gone", rank, comm->text);
            }
            return;
        }
    }
    if (comm->device && comm->device->bound && comm->device->device->engine->check(comm->device->bound) != DMA_OK) {
        dma_comm_fail(comm, DMA_ERR_ENGINE, "the engine %s of %s has failed", comm->device->device->engine->name,
                      comm->text);
        return;
    }
    if (params->warn_seconds > 0 && !comm->warned && now - comm->since > params->warn_seconds) {
        comm->warned = true;
        report_late(comm, now - comm->since);
    }
    if (params->entry_timeout > 0 && now - comm->since > params->entry_timeout && comm->state == DMA_COMM_READY &&
        (rank = missing(comm)) >= 0) {
        dma_comm_fail(comm, DMA_ERR_TIMEOUT, "rank %d has not entered call %llu on %s within %.1f s", rank,
                      (unsigned long long)comm->head->run.seq, comm->text, params->entry_timeout);
    }
}

/* A channel shares its communicator's fate: some ranks may wait in it for others that have seen the failure and will not
 * come, even to its set-up. */
static dma_status_t poisoned(const dma_comm_t *comm)
{
    dma_status_t poison = comm->state == DMA_COMM_READY ? dma_window_poisoned(&comm->window) : DMA_OK;

    if (comm->parent && comm->parent->cluster) {
        return poison; /* dma_cluster_check has looked at it */
    }
    return poison == DMA_OK && comm->parent ? dma_window_poisoned(&comm->parent->window) : poison;
}

void dma_comm_watch(dma_comm_t *comm)
{
    dma_status_t poison;

    if (!comm->head && comm->state != DMA_COMM_SETUP) {
        dma_device_disarm_expired(comm);
        return;
    }
    if (comm->watched_seq != (comm->head ? comm->head->run.seq : 0)) {
        comm->watched_seq = comm->head ? comm->head->run.seq : 0; /* something has moved: begin anew */
        comm->watched = 0;
        comm->since = 0;
        comm->warned = false;
    }
    comm->watched++;
    if (comm->cluster && (poison = dma_cluster_check(comm)) != DMA_OK) {
        dma_comm_fail(comm, poison, "another rank of %s has failed or is gone: %s", comm->text,
                      dma_status_name(poison));
        return;
    }
    if (comm->watched % POISON_TURNS == 0 && (poison = poisoned(comm)) != DMA_OK) {
        dma_comm_fail(comm, poison, "another rank of %s has failed: %s", comm->text, dma_status_name(poison));
        return;
    }
    if (comm->watched % CLOCK_TURNS == 0) {
        watch_clock(comm);
    }
}

/* A look moves the network on by itself, with a system call where that is TCP. Progress may be several: whoever waits for a
 * message of ours would wait for them, too, so they are not part of every turn. */
static void between_nodes(dma_comm_t *comm, unsigned turn)
{
    if (turn % SWITCHES == SWITCHES - 1) {
        comm->host->progress();
    } else if (comm->proc->params.yield) {
        sched_yield();
    } else {
        dma_cpu_pause();
    }
}

/* Between two looks, number `turn`. */
static void between(dma_comm_t *comm, unsigned turn)
{
    if (comm->state == DMA_COMM_SETUP || comm->oversubscribed) { /* the set-up knows what to share */
        sched_yield();
        if (turn % SWITCHES == SWITCHES - 1) {
            comm->host->progress();
        }
    } else if (comm->cluster) {
        between_nodes(comm, turn);
    } else if (turn < SPINS) {
        dma_cpu_pause();
    } else {
        comm->host->progress();
        if (turn > LONG && turn % SWITCHES == 0) {
            sched_yield(); /* somebody outside of the job may hold the peer's core */
        }
    }
}

static void look(dma_comm_t *comm)
{
    if (dma_comm_trylock(comm)) {
        dma_comm_advance(comm);
        dma_comm_watch(comm);
        dma_comm_unlock(comm);
    }
}

dma_status_t dma_task_wait(dma_task_t *task)
{
    for (unsigned turn = 0; !dma_task_done(task); turn++) {
        between(task->comm, turn);
        look(task->comm);
    }
    return task->status;
}

void dma_setup_wait(dma_comm_t *comm)
{
    for (unsigned turn = 0; dma_comm_state(comm) == DMA_COMM_SETUP; turn++) {
        between(comm, turn);
        look(comm);
    }
}
