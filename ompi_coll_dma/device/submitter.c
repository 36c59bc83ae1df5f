/*
 * The submitter: a thread of the process that starts the copies of posted calls when the last rank has entered them.
 *
 * A call in device memory can start only when all ranks have entered it. If a rank is late, the caller of a non-blocking call
 * computes by then, and no code of ours runs on its thread. So the call is handed to the submitter, which sleeps until a rank
 * rings the bell of this process (node/bell.h), and then moves the call on as progress would: it enters, reads the records of
 * the peers, votes, and gives the copies to the engine. From then on the engine works alone, and the peers poll its lines.
 *
 * The thread exists only in processes that have handed it a call. It ends when it has had nothing to do for IDLE_SECONDS. It
 * sleeps between two bells, so it costs processor time only when a rank has come.
 *
 * What the thread must not do, because it is not a thread of the application:
 *   - call Open MPI: it never completes a request (dma_comm_unlock_quietly leaves that to the next call of progress), never
 *     prints (dma_reports_keep), packs no datatype and copies nothing by processor: such steps are left to the caller
 *     (left_to_caller),
 *   - wait for a lock that the application's thread holds during such work: it only tries the communicator's lock.
 *
 * An error is kept in the call, and the caller's next progress finds it there.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include "device/device.h"
#include "dma/thread.h"
#include "node/bell.h"

#define IDLE_SECONDS 1.0
#define LISTEN_SECONDS                                                                                                 \
    0.01 /* between two looks if no bell rings: a rank in an arena without our bell, or a lost wake-up */
#define POLL_SECONDS 0.0001 /* between two looks at what rings no bell */

struct dma_submitter {
    dma_proc_t *proc;
    dma_bell_t *bell;
    pthread_t thread;
    bool exists; /* the thread has to be joined */
    /* guarded by the process's submitter_lock: */
    bool running, stopping;
    dma_comm_t *list; /* communicators that have been handed over */
};

/* What becomes of a communicator after a look. */
typedef enum verdict {
    DONE,   /* the engine has the copies, or the caller has to go on */
    LISTEN, /* a rank that enters rings the bell */
    POLL,   /* nobody rings for what it waits for */
} verdict_t;

static const bool two_threads = true;

/* ---- one communicator, with its lock ---- */

/* The engine has the copies of the oldest call. */
static verdict_t judge_running(const dma_comm_t *comm, const dma_task_t *task)
{
    const dma_gpu_engine_t *engine = comm->device->device ? comm->device->device->engine : NULL;
    bool needs_cpu = engine && engine->needs_cpu && engine->needs_cpu(&task->run);

    return task->next || needs_cpu ? POLL : DONE;
}

static verdict_t judge(const dma_comm_t *comm, const dma_task_t *task)
{
    if (comm->device->left_to_caller) {
        return DONE;
    }
    if (task->device->under_way) {
        return judge_running(comm, task);
    }
    if (dma_task_state(task) == DMA_TASK_QUEUED || task->device->phase == DEVICE_RUN) {
        return POLL; /* for its turn; or the engine has no room for the copies */
    }
    return comm->window.arena == comm->proc->arena ? LISTEN : POLL;
}

static bool is_ours(const dma_comm_t *comm, const dma_task_t *task)
{
    return comm->state == DMA_COMM_READY && task && task->route == &dma_route_device && !task->device->failed;
}

static verdict_t advance(dma_comm_t *comm)
{
    struct dma_device_comm *dc = comm->device;
    verdict_t verdict = DONE;
    dma_task_t *task;

    dc->by_submitter = true;
    dc->left_to_caller = false;
    while (is_ours(comm, task = comm->head)) {
        dma_status_t status = dma_device_advance(comm, task);

        if (status == DMA_OK) {
            dma_task_end(comm, task, NULL);
            continue;
        }
        if (status == DMA_AGAIN) {
            verdict = judge(comm, task);
        } else {
            task->device->failed = status;
        }
        break;
    }
    dc->by_submitter = false;
    return verdict;
}

/* ---- the thread ---- */

/* Looks at all communicators; with the lock of the submitter. *listens, *polls: one waits for a bell, or for something else. */
static void look(struct dma_submitter *s, bool *listens, bool *polls)
{
    *listens = *polls = false;
    for (dma_comm_t **link = &s->list, *comm; (comm = *link);) {
        verdict_t verdict =
            POLL; /* the application's thread has the lock: it moves the call on, or gives the lock back soon */

        if (dma_comm_trylock(comm)) {
            verdict = advance(comm);
            if (verdict == DONE) {
                *link = comm->device->next_submitted;
                comm->device->submitted = false;
            }
            dma_comm_unlock_quietly(comm);
        }
        if (verdict != DONE) {
            link = &comm->device->next_submitted;
        }
        *listens = *listens || verdict == LISTEN;
        *polls = *polls || verdict == POLL;
    }
}

static void *run(void *arg)
{
    struct dma_submitter *s = arg;
    double idle_since = dma_now();
    bool listens, polls;

    (void)prctl(PR_SET_NAME, "coll_dma");
    (void)prctl(PR_SET_TIMERSLACK, 1000); /* ns; the default would double POLL_SECONDS */
    dma_reports_keep(true);
    pthread_mutex_lock(&s->proc->submitter_lock);
    while (!s->stopping) {
        uint32_t value = dma_bell_listen(s->bell);

        look(s, &listens, &polls);
        if (listens || polls) {
            idle_since = dma_now();
        } else if (dma_now() - idle_since > IDLE_SECONDS) {
            break;
        }
        pthread_mutex_unlock(&s->proc->submitter_lock);
        dma_bell_sleep(s->bell, value, polls ? POLL_SECONDS : listens ? LISTEN_SECONDS : IDLE_SECONDS);
        pthread_mutex_lock(&s->proc->submitter_lock);
    }
    s->running = false;
    pthread_mutex_unlock(&s->proc->submitter_lock);
    return NULL;
}

static void ring(struct dma_submitter *s)
{
    dma_bell_fence();
    dma_bell_ring(s->bell);
}

/* With the lock. */
static bool start_thread(struct dma_submitter *s)
{
    if (s->exists) {
        pthread_join(s->thread, NULL);
    }
    s->exists = s->running = dma_thread_create(&s->thread, NULL, run, s) == 0;
    return s->running;
}

/* ---- for the application's thread ---- */

/* Does the call wait for something that the submitter can see? */
static bool is_late(const dma_comm_t *comm)
{
    const dma_task_t *task = comm->head;

    return comm->device && !comm->inner && is_ours(comm, task) && dma_task_state(task) == DMA_TASK_RUNNING &&
           (!task->device->under_way || task->next);
}

void dma_submitter_prepare(dma_proc_t *proc)
{
    struct dma_submitter *s;

    pthread_mutex_lock(&proc->submitter_lock);
    if (proc->params.progress_thread && proc->arena && !proc->submitter && (s = calloc(1, sizeof(*s)))) {
        s->proc = proc;
        s->bell = dma_arena_bell(dma_arena_base(proc->arena));
        proc->submitter = s;
    }
    pthread_mutex_unlock(&proc->submitter_lock);
}

void dma_submitter_take(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;
    struct dma_submitter *s = proc->submitter; /* made with the first communicator that has device memory */

    if (!s || !is_late(comm) || comm->device->submitted) {
        return;
    }
    pthread_mutex_lock(&proc->submitter_lock);
    if (s->running || start_thread(s)) {
        comm->threads = &two_threads; /* from now on the lock has to be one */
        comm->device->submitted = true;
        comm->device->next_submitted = s->list;
        s->list = comm;
        ring(s);
    }
    pthread_mutex_unlock(&proc->submitter_lock);
}

void dma_submitter_give_back(dma_comm_t *comm)
{
    dma_proc_t *proc = comm->proc;
    dma_comm_t **link;

    if (!comm->device->submitted || !proc->submitter) {
        return;
    }
    pthread_mutex_lock(&proc->submitter_lock);
    for (link = &proc->submitter->list; *link && *link != comm;) {
        link = &(*link)->device->next_submitted;
    }
    if (*link) {
        *link = comm->device->next_submitted;
    }
    comm->device->submitted = false;
    pthread_mutex_unlock(&proc->submitter_lock);
}

void dma_submitter_destroy(dma_proc_t *proc)
{
    struct dma_submitter *s = proc->submitter;

    if (!s) {
        return;
    }
    pthread_mutex_lock(&proc->submitter_lock);
    s->stopping = true;
    pthread_mutex_unlock(&proc->submitter_lock);
    if (s->exists) {
        ring(s);
        pthread_join(s->thread, NULL);
    }
    free(s);
    proc->submitter = NULL;
}
