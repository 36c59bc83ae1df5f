/*
 * Waiting, and what a wait looks for.
 *
 * A blocking call spins first: a peer that is on its way arrives within a microsecond. Then it runs the progress engine
 * between two looks, because the peer can need a message of this process before it can come. Where ranks outnumber cores
 * it does not spin: it yields the core to the rank that it waits for. If nothing moves for some time, and others use this
 * core, it sleeps (node/pause.h).
 *
 * A late rank is not a dead rank. No clock ends a wait for a peer, except where the user has set one (entry_timeout). After
 * warn one line says which rank waits for which. Errors come from evidence: a rank that has poisoned the
 * communicator, a process that is gone.
 */
#include <sched.h>
#include <stdio.h>

#include "core/comm.h"

#define SPIN_TURNS   400   /* looks before the first progress: some microseconds */
#define YIELD_TURNS  8     /* looks between two progress calls where each look yields */
#define LONG_TURNS   10000 /* after so many turns a wait is no longer short */
#define DEAD_SECONDS 0.05  /* between two looks at the peers' processes: each costs a system call */
#define CLOCK_TURNS  128   /* turns between two looks at the clock; a power of two */
#define LOW_TURNS                                                                                                      \
    8 /* Open MPI runs callbacks of low priority, UCX's among them, in one of so many calls of its progress */

dma_wait_t dma_comm_waits_for(const dma_comm_t *comm)
{
    const dma_task_t *task = comm->state == DMA_COMM_SETUP ? NULL : comm->head;
    const dma_route_t *route = !task ? comm->route : task->route ? task->route : &dma_route_host;

    return (task || comm->state == DMA_COMM_SETUP) && route->waits_for ? route->waits_for(comm, task) : (dma_wait_t){0};
}

static const char *phase_of(const dma_comm_t *comm, const dma_wait_t *wait)
{
    const dma_task_t *task = comm->state == DMA_COMM_SETUP ? NULL : comm->head;
    const dma_route_t *route = !task ? comm->route : task->route ? task->route : &dma_route_host;
    const char *phase = route->phase ? route->phase(comm, task) : NULL;

    return phase                                     ? phase
           : dma_task_state(task) == DMA_TASK_QUEUED ? "queued"
           : wait->kind == DMA_WAIT_ENTRY            ? "entry"
                                                     : "copies";
}

static dma_state_wait_t wait_of(const dma_comm_t *comm)
{
    dma_state_wait_t w = {.since = comm->since, .wait = dma_comm_waits_for(comm)};

    if (comm->state != DMA_COMM_SETUP) {
        w.call = comm->head->run.seq;
        w.coll = (int32_t)comm->head->coll;
    }
    snprintf(w.phase, sizeof(w.phase), "%s", phase_of(comm, &w.wait));
    return w;
}

static void show(dma_comm_t *comm, double now)
{
    if (dma_state_is_due(comm, now)) {
        dma_state_wait_t wait = wait_of(comm);

        dma_state_show_wait(comm, &wait, now);
    }
}

static void report_late(dma_comm_t *comm, double now)
{
    dma_state_wait_t wait = wait_of(comm);
    char words[DMA_STATE_WORDS];

    dma_state_words(&wait, comm->rank, comm->text, now, words);
    dma_proc_report(comm->proc, DMA_REPORT_WARN, "late", "%s; it waits on", words);
}

/*
 * Does this rank report its wait in a set-up? There, ranks do not see each other yet. Rank 0 is enough, because the set-up of all
 * takes as long as that of the slowest. If it is rank 0 that does not move, those to whom it owes a message report it, as soon as
 * they have waited for that message for so long.
 */
static bool reports_setup(dma_comm_t *comm, double now)
{
    const char *phase = comm->route->phase ? comm->route->phase(comm, NULL) : NULL;
    dma_wait_t wait = dma_comm_waits_for(comm);
    int whom = wait.kind == DMA_WAIT_MESSAGE ? wait.ranks[0] : -1;

    if (comm->setup_phase != phase || comm->setup_whom != whom || !comm->setup_since) {
        comm->setup_phase = phase;
        comm->setup_whom = whom;
        comm->setup_since = now;
    }
    return comm->rank == 0 || (whom == 0 && now - comm->setup_since > comm->proc->params.warn);
}

/* One rank of a node is enough. */
static bool may_report(dma_comm_t *comm)
{
    return comm->state != DMA_COMM_READY || !comm->route->may_report || comm->route->may_report(comm);
}

/* The attached route may know that the call waits for nobody. */
static bool is_late(dma_comm_t *comm, double now)
{
    double warn = comm->proc->params.warn;

    return warn > 0 && !comm->warned && now - comm->since > warn &&
           (!comm->attached || !comm->attached->may_report || comm->attached->may_report(comm));
}

static bool has_failed(const dma_comm_t *comm)
{
    return comm->state == DMA_COMM_POISONED;
}

/* Is the process of a peer gone that shares a window? */
static void look_for_dead(dma_comm_t *comm, double now)
{
    int rank = -1;

    if (comm->window.own && comm->state == DMA_COMM_READY && now - comm->dead_checked > DEAD_SECONDS) {
        comm->dead_checked = now;
        rank = dma_window_find_dead(&comm->window, dma_comm_current(comm));
    }
    if (rank >= 0) {
        /* what the process wrote last may have arrived after our last look */
        dma_tasks_advance(comm);
        if (comm->head) {
            dma_comm_fail(comm, DMA_ERR_PEER, "rank %d of %s is gone", rank, comm->text);
        }
    }
}

/* Apart from dma_comm_watch, which runs in every turn and needs none of these variables. */
static __attribute__((noinline)) void watch_clock(dma_comm_t *comm)
{
    const dma_params_t *params = &comm->proc->params;
    double now = dma_now();
    dma_wait_t wait;

    if (!comm->since) {
        comm->since = comm->dead_checked = now;
    }
    look_for_dead(comm, now);
    if (!has_failed(comm) && comm->attached && comm->attached->watch_clock) {
        comm->attached->watch_clock(comm, now);
    }
    if (comm->state == DMA_COMM_SETUP) {
        dma_absent_watch(comm, now);
    }
    if (has_failed(comm) || (!comm->head && comm->state != DMA_COMM_SETUP)) { /* the call may have ended meanwhile */
        return;
    }
    show(comm, now);
    if (comm->state == DMA_COMM_SETUP && !reports_setup(comm, now)) {
        return;
    }
    if (is_late(comm, now)) {
        comm->warned = true;
        if (may_report(comm)) {
            report_late(comm, now);
        }
    }
    if (params->entry_timeout > 0 && now - comm->since > params->entry_timeout &&
        (wait = dma_comm_waits_for(comm)).kind == DMA_WAIT_ENTRY) {
        dma_comm_fail(comm, DMA_ERR_TIMEOUT, "rank %d has not entered call %llu on %s within %.1f s", wait.ranks[0],
                      (unsigned long long)comm->head->run.seq, comm->text, params->entry_timeout);
    }
}

void dma_comm_watch(dma_comm_t *comm)
{
    uint64_t oldest = comm->head ? comm->head->run.seq : 0;
    unsigned before;

    if (!comm->head && comm->state != DMA_COMM_SETUP) {
        if (comm->attached && comm->attached->expire) {
            comm->attached->expire(comm);
        }
        return;
    }
    if (comm->watched_seq != oldest) { /* something has moved: begin anew */
        comm->watched_seq = oldest;
        comm->watched = 0;
        comm->since = 0;
        comm->warned = false;
    }
    before = comm->watched;
    comm->watched += comm->turns;
    if (dma_turns_passed(before, comm->watched, comm->route->watch_mask + 1) && comm->route->watch) {
        comm->route->watch(comm);
    }
    if (!has_failed(comm) && dma_turns_passed(before, comm->watched, CLOCK_TURNS)) {
        watch_clock(comm);
    }
}

/* After a pause that stands for several turns, so that what they would have run has run. */
static void progress_after(dma_comm_t *comm, const dma_pause_t *pause)
{
    unsigned calls = pause->turns < LOW_TURNS ? 1 + pause->turns : LOW_TURNS;

    for (unsigned i = 0; i < (comm->state == DMA_COMM_SETUP ? 1 : calls); i++) { /* a set-up exchanges messages only */
        comm->host->progress();
    }
}

/* Between two looks, number `turn`. */
static void pause_wait(dma_comm_t *comm, dma_pause_t *pause, unsigned turn)
{
    bool setup = comm->state == DMA_COMM_SETUP; /* nobody knows yet whether ranks share cores, and only messages come */

    if (setup || comm->oversubscribed) {
        if (dma_pause(pause) || setup || turn % YIELD_TURNS == YIELD_TURNS - 1) {
            progress_after(comm, pause);
        }
    } else if (comm->route->pause) {
        comm->route->pause(comm, pause, turn);
    } else if (turn < SPIN_TURNS) {
        dma_cpu_pause();
    } else {
        comm->host->progress();
        if (turn % YIELD_TURNS == 0 && !dma_pause_shared(pause) && turn > LONG_TURNS) {
            sched_yield(); /* a process outside of the job can hold the peer's core */
        }
    }
}

uint64_t dma_comm_position(const dma_comm_t *comm)
{
    const dma_task_t *task = comm->state == DMA_COMM_READY ? comm->head : NULL;
    const dma_route_t *route = task && task->route ? task->route : &dma_route_host;
    bool running = task && dma_task_state(task) == DMA_TASK_RUNNING && route->position;

    return task ? (task->run.seq << 32) + (running ? route->position(comm, task) : 0) : 0;
}

static void look(dma_comm_t *comm, dma_pause_t *pause)
{
    if (dma_comm_trylock(comm)) {
        comm->turns = 1 + pause->turns;
        dma_comm_advance(comm);
        dma_comm_watch(comm);
        if (pause->since) {
            dma_pause_moved(pause, dma_comm_position(comm));
        }
        comm->turns = 1;
        dma_comm_unlock(comm);
    }
    pause->turns = 0;
}

dma_status_t dma_task_wait(dma_task_t *task)
{
    dma_pause_t pause = {0};

    for (unsigned turn = 0; !dma_task_done(task); turn++) {
        pause_wait(task->comm, &pause, turn);
        look(task->comm, &pause);
    }
    return task->status;
}

void dma_setup_wait(dma_comm_t *comm)
{
    dma_pause_t pause = {0};

    for (unsigned turn = 0; dma_comm_state(comm) == DMA_COMM_SETUP; turn++) {
        pause_wait(comm, &pause, turn);
        look(comm, &pause);
    }
}
