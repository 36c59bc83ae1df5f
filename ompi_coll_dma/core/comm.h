/*
 * The inside of a process, a communicator and a task. For the files of core/, for routes, and for unit tests.
 *
 * A call becomes a task with the next sequence number of its communicator. Tasks wait in the communicator's queue, in
 * call order, until they complete. They also start in call order, each when
 *   - the set-up has finished,
 *   - its place in the descriptor ring is free (node/window.h), and
 *   - no earlier streaming task is still running, if it streams itself.
 * Started tasks move on independently and can complete in any order.
 *
 * Only the holder of the communicator's lock touches any of this. Progress never waits for the lock. No code of others
 * that could call back runs under it, except the host's isend, irecv and test: a call that comes back through them
 * finds the lock taken and returns.
 */
#ifndef DMA_CORE_COMM_H
#define DMA_CORE_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

#include "core/counters.h"
#include "core/plans.h"
#include "core/route.h"
#include "core/setup/known.h"
#include "core/staging.h"
#include "core/state.h"
#include "dma/clock.h"
#include "dma/comm.h"
#include "dma/engine.h"
#include "gpu/budget.h"
#include "gpu/runtime.h"
#include "node/plain.h"
#include "node/window.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"
#include "trace/trace.h"

/* Nobody knows all block sizes of an all-to-all-v: the choice assumes this one. */
#define DMA_ALLTOALLV_BYTES 65536

#define DMA_WHY_BYTES 128 /* of a reason in words */

/* A reason, and the words that a user reads. */
typedef struct dma_why {
    dma_reason_t reason;
    char text[DMA_WHY_BYTES];
} dma_why_t;

/* `text` NULL: the text of the reason. */
static inline dma_why_t dma_why(dma_reason_t reason, const char *text)
{
    dma_why_t why = {.reason = reason};

    snprintf(why.text, sizeof(why.text), "%s", text ? text : dma_reason_text(reason));
    return why;
}

typedef struct dma_file_arena {
    struct dma_file_arena *next;
    dma_arena_t *arena;
} dma_file_arena_t;

struct dma_proc {
    const dma_host_t *host;
    dma_counters_t *counters; /* the caller's, or the next */
    const dma_events_t *events;
    dma_counters_t own_counters;
    dma_params_t params;
    char *session_dir;
    char *profile_path;
    pthread_mutex_t lock;
    dma_arena_t *arena;               /* the memfd, made at the first set-up */
    dma_why_t arena_failed;           /* why there is none; it is not created again */
    dma_file_arena_t *retired;        /* file arenas that some peer still uses */
    size_t file_bytes;                /* in file arenas */
    dma_known_t known[DMA_KNOWN];     /* what set-ups have found out; guarded by `lock` */
    dma_comm_t *active, *active_last; /* list of communicators that progress has to advance; guarded by `lock` */
    _Atomic unsigned nactive;
    struct dma_kept_report *kept; /* reports that progress prints; guarded by `lock` */
    _Atomic bool keeps;           /* there are some */
    dma_comm_t *polled;           /* list for dma_proc_poll_notices; guarded by `lock` */
    dma_state_t state;            /* what coll_dma_state reads */
    char job[sizeof(((dma_state_head_t *)0)->job)];
    int world_rank;
    dma_trace_t *trace; /* NULL: none */
    bool trace_tried;
    _Atomic unsigned notice_polls;
    const dma_route_t *const *routes;
    const dma_memory_t *memory; /* device memory; NULL: there is none */
    _Atomic bool beside_device; /* a rank of some communicator has had device memory where this process had not */
    dma_plain_t plain;          /* memory that is never device memory; unset before the first set-up */
    bool plain_read;
    char *gpu_profile_path, *sysfs, *record, *net_profile_path, *trace_dir;

    /* State of the device route (device/device.h). */
    const struct dma_gpu_runtime *runtime;
    const struct dma_gpu_engine *const *engines;
    pthread_mutex_t device_lock; /* guards ipc, devices and leases */
    pthread_mutex_t submitter_lock;
    struct dma_submitter *submitter;
    _Atomic int armed; /* persistent calls whose programs the engines have beforehand */
    struct dma_ipc *ipc;
    struct dma_device *devices;
    pthread_cond_t device_opened; /* with device_lock: the engine of one of them has been chosen */
    struct dma_lease *leases;     /* device/lease.h */
    uint64_t lease_uses;          /* so far: orders them */
    dma_budget_t budget;

    /* State of the cluster route (cluster/cluster.h). */
    const struct dma_net_ops *net_ops; /* to other nodes; NULL: none */
    pthread_mutex_t net_lock;          /* held while the network is opened, and for nothing else */
    void *net;                         /* opened when it is first needed */
    bool net_tried;
    _Atomic uint32_t next_id; /* for communicators over several nodes whose rank 0 is here */
};

typedef enum dma_task_state {
    DMA_TASK_QUEUED,
    DMA_TASK_RUNNING,
    DMA_TASK_COMPLETE,
} dma_task_state_t;

/* A stage for sides that the host services pack: resolve.c. */
typedef struct dma_typed_stage {
    dma_stage_t stage;
    dma_side_t recv;
    const dma_side_t *send;
} dma_typed_stage_t;

struct dma_task {
    dma_task_t *next; /* in the queue, by sequence number; later in the list of completed tasks */
    dma_comm_t *comm;
    _Atomic dma_task_state_t state;
    dma_status_t status; /* once complete */
    dma_coll_t coll;
    bool in_place;
    bool own_arrays; /* `arrays` belongs to the task; else to the communicator */
    dma_form_t form; /* set with the next one */
    uint64_t began;  /* for its end event: dma_trace_now; then how long it took; 0: none */
#ifdef DMA_HAVE_EVENTS
    dma_prediction_t predicted; /* for its end event */
#endif
    uint64_t bytes;             /* of the largest block */
    const dma_route_t *route;   /* NULL: the host route */
    const dma_memory_t *memory; /* the call has sides in such memory; NULL: it has none */
    dma_run_t run;
    dma_cursor_t cursor; /* enough for a plan with one program */
    void *arrays;        /* dma_arrays_t, then cursors; NULL: not needed so far */
    dma_stage_t *stages; /* the newest first */
    dma_typed_stage_t typed;
    struct dma_messages *messages;  /* state of the messages route */
    struct dma_device_call *device; /* state of the device route; the cluster route uses it too */
    dma_done_t done;
    void *arg;
};

struct dma_setup;

struct dma_comm {
    dma_proc_t *proc;
    const dma_host_t *host;
    void *handle;
    int tag;           /* of messages of calls: 0, or that of a channel (channel.c) */
    uint32_t channels; /* that have got tags */
    int rank, nranks;
    dma_plain_t plain;   /* of the process, from the set-up on */
    const bool *threads; /* as in dma_comm_config_t */
    bool nodes;          /* as in dma_comm_config_t, like the next two */
    int first;
    dma_comm_t *parent; /* of a channel: its failure is ours, and ours its */
    const dma_route_t *route;
    const dma_route_t *route_calls; /* of all tasks; NULL: the host route, or the one that resolved the call */
    const dma_route_t *attached;    /* a second route with state here; NULL: none */
    _Atomic dma_comm_state_t state;
    dma_status_t error;         /* POISONED: with what */
    dma_status_t pending_error; /* not 0: the communicator becomes POISONED with it when the set-up ends */
    char pending_reason[192];
    _Atomic int locked;

    /* READY, host route */
    const dma_engine_t *engine;
    dma_window_t window;
    dma_arena_t *file_arena; /* where the block is when it is not in the process's memfd */
    dma_profile_t profile;
    dma_plan_req_t req; /* the agreed part of every request */
    int forced;         /* variant, or -1 */
    _Atomic unsigned
        joins; /* further calls in host memory that are to join device memory of others (dma_memory_t.join) */
    bool refusal_reported;         /* this rank could not read a peer's memory, and has reported it */
    bool oversubscribed;           /* more ranks than cores: yield rather than spin */
    uint64_t seq;                  /* of the last task */
    uint32_t first_calls;          /* which the next module carries out before the set-up (first.c) */
    uint64_t first_weight;         /* of the calls that the next module has carried out (first.c) */
    dma_state_row_t *row;          /* what coll_dma_state reads of this communicator */
    const dma_trace_comm_t *trace; /* `traced`; NULL: it is not traced */
    dma_trace_comm_t traced;
    uint64_t *stream; /* by rank: chunks put into its stream so far; then the next two in the same memory: */
    uint64_t *pair_out, *pair_in; /* the same for the pair rings, from us to the rank and from it to us */
    void *arrays;                 /* of the blocking call: there is one at a time */
    dma_task_t *head, *tail, *streaming;
    dma_task_t *completed;               /* delivered when the lock is released */
    _Atomic(dma_staging_t *) staging[2]; /* by side: memory of a call that has ended, for the next one */
    dma_plan_cache_t plans;

    /* State of the other routes. Only they look at it. */
    struct dma_cluster *cluster;
    struct dma_device_comm *device;
    dma_gpu_profile_t gpu_profile; /* agreed in the set-up, as the next two */
    int gpu_forced;
    uint32_t gpu_queues;
    uint32_t
        first_epoch; /* epochs of GPU plans come behind it: at random, so that no old one of another communicator fits */

    /* Of a channel. */
    bool wants_memory_route, all_want_memory_route; /* dma_memory_t.serves of this rank; of all ranks */
    dma_geom_t wanted;                              /* geometry of its window; all 0: as the parameters say */

    const volatile int32_t *begin_listeners, *end_listeners; /* dma_events_t */
    struct dma_setup *setup;
    unsigned missed_posts; /* posts in a row that polled and whose peers did not come */
    dma_comm_t *next_active, *previous_active;
    bool is_active;
    dma_comm_t *next_polled;
    bool is_polled;
    unsigned turns;   /* for how many turns the present look stands: dma_pause_t.turns and one */
    unsigned watched; /* turns since the oldest task changed */
    uint64_t watched_seq;
    double since, dead_checked;
    double shown;      /* when the row was written last */
    uint64_t identity; /* equal on all ranks; 0: not agreed yet */
    bool warned;
    const char *setup_phase; /* of the set-up: what it waited for when watch_clock looked last, and since when */
    int setup_whom;
    double setup_since;
    bool looked; /* for ranks that have not loaded coll/dma */
    bool left;   /* ASIDE, because there is one (absent.c) */
    bool inner;  /* belongs to a communicator over several nodes, which reports that its calls are late */
    char *text;
    char reason[320];
    dma_comm_counts_t counts; /* with the lock */
};

/* ---- with the communicator's lock held ---- */

static inline void dma_comm_count(dma_comm_t *comm, int which)
{
#ifndef DMA_COUNT_NOTHING /* test/cost measures what this costs */
    comm->counts.at[which]++;
#else
    (void)comm;
    (void)which;
#endif
}

static inline void dma_comm_count_reason(dma_comm_t *comm, dma_reason_t reason)
{
    dma_comm_count(comm, DMA_COUNT_REASON + (int)reason);
    DMA_PROBE2(way_out, comm, dma_reasons[reason].name);
}

/* Counts a reason for which the fast path is left, and tells the user who asks for it (coll_dma_verbose 2), once for each
 * communicator. */
void dma_comm_note_reason(dma_comm_t *comm, dma_reason_t reason);

/* What our descriptors say besides operation and bytes. */
static inline uint64_t dma_comm_sign_flags(const dma_comm_t *comm)
{
    return comm->refusal_reported && comm->req.cross_memory ? DMA_SIGN_REFUSED : 0;
}

#define DMA_JOINS 16 /* calls without device memory on any rank, until this rank's host memory joins no more */

/* Another rank has device memory in a call in which this one has host memory: the next calls may be like this one. */
static inline void dma_comm_expect_device(dma_comm_t *comm)
{
    atomic_store_explicit(&comm->joins, DMA_JOINS, memory_order_relaxed);
    atomic_store_explicit(&comm->proc->beside_device, true, memory_order_relaxed);
}

/* Moves the set-up and all tasks on; returns how many of them ended. */
int dma_comm_advance(dma_comm_t *comm);
/* Fails every task, now and later. */
void dma_comm_fail(dma_comm_t *comm, dma_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A turn has passed in which neither a task nor the set-up completed: looks for evidence of failure and at the clock, now
 * and then. */
void dma_comm_watch(dma_comm_t *comm);
/* Adds the communicator to the list that dma_proc_progress advances, or removes it. */
void dma_comm_set_active(dma_comm_t *comm, bool busy);
/* Adds the communicator to the list of dma_proc_poll_notices, or removes it: other ranks can depend on this rank to
 * pass on a failure, also while it has no call. */
void dma_comm_set_polled(dma_comm_t *comm, bool listens);
/* A second route gets state in this communicator. */
void dma_comm_attach(dma_comm_t *comm, const dma_route_t *route);
/* Becomes ASIDE: its calls are done by messages. `reason` is set. */
void dma_comm_step_aside(dma_comm_t *comm);

static inline bool dma_comm_trylock(dma_comm_t *comm)
{
    if (!*comm->threads) {
        /* one thread: the lock only turns a recursive caller away */
        if (atomic_load_explicit(&comm->locked, memory_order_relaxed)) {
            return false;
        }
        atomic_store_explicit(&comm->locked, 1, memory_order_relaxed);
        return true;
    }
    return !atomic_exchange_explicit(&comm->locked, 1, memory_order_acquire);
}

void dma_comm_deliver(dma_comm_t *comm);

/* Unlocks, then calls `done` of the tasks that have completed meanwhile. */
static inline void dma_comm_unlock(dma_comm_t *comm)
{
    if (__builtin_expect(comm->completed != NULL, 0)) {
        dma_comm_deliver(comm);
        return;
    }
    atomic_store_explicit(&comm->locked, 0, memory_order_release);
}

/* For a thread that must not call back: the next thread that unlocks calls `done`. */
static inline void dma_comm_unlock_quietly(dma_comm_t *comm)
{
    atomic_store_explicit(&comm->locked, 0, memory_order_release);
}

/* The oldest call that has not completed here, or the last one. */
static inline uint32_t dma_comm_current(const dma_comm_t *comm)
{
    return (uint32_t)(comm->head ? comm->head->run.seq : comm->seq);
}

void dma_comm_lock_slow(dma_comm_t *comm);

static inline void dma_comm_lock(dma_comm_t *comm)
{
    if (__builtin_expect(!dma_comm_trylock(comm), 0)) {
        dma_comm_lock_slow(comm);
    }
}

/* ---- calls.c ---- */

/* Posts a call in a task of the caller's; without the lock. The task is free again when `done` is called. `outcome`: as
 * in dma_comm_post_in. */
dma_status_t dma_comm_post_task(dma_comm_t *comm, const dma_call_t *call, void *arrays, dma_done_t done, void *arg,
                                dma_task_t *task, dma_status_t *outcome);
/* The same for a task that has been resolved. `status`: how that ended. After an error the communicator fails. */
dma_status_t dma_comm_post_resolved(dma_comm_t *comm, dma_status_t status, dma_done_t done, void *arg, dma_task_t *task,
                                    dma_status_t *outcome);
/* A call of coll/dma's own on a READY communicator, which is none of the user's. `status`: how it was resolved; after an error the
 * communicator fails. Blocking, without the lock, as the next one. */
dma_status_t dma_comm_run_own(dma_comm_t *comm, dma_task_t *task, dma_status_t status);
/* All ranks' `mine`, by rank. Counted nowhere. */
dma_status_t dma_comm_agree(dma_comm_t *comm, const void *mine, void *all, size_t bytes);

/* ---- advance.c ---- */

/* Begins the set-up at the first call; with the lock. */
dma_status_t dma_comm_begin(dma_comm_t *comm);
/* Its set-up has succeeded at once; without the lock. */
void dma_comm_begin_ready(dma_comm_t *comm);
/* Does progress have to advance it? With the lock, as the next one. */
bool dma_comm_has_work(const dma_comm_t *comm);
int dma_tasks_advance(dma_comm_t *comm);

/* ---- wait.c: without the lock ---- */

dma_status_t dma_task_wait(dma_task_t *task);
/* A number that changes while the oldest call moves on; with the lock. */
uint64_t dma_comm_position(const dma_comm_t *comm);
void dma_setup_wait(dma_comm_t *comm);
/* With the lock: what the oldest call, or the set-up, waits for. */
dma_wait_t dma_comm_waits_for(const dma_comm_t *comm);

static inline bool dma_task_done(const dma_task_t *task)
{
    /* acquire: another thread may have completed it */
    return atomic_load_explicit(&task->state, memory_order_acquire) == DMA_TASK_COMPLETE;
}

/* ---- events.c ---- */

#ifdef DMA_HAVE_EVENTS
/* Tells the listeners, and returns the time. */
uint64_t dma_event_raise_begin(const dma_task_t *task);
void dma_event_note(dma_task_t *task);
void dma_event_raise_end(const dma_task_t *task);
#endif

/* A call has been posted. What the cluster route posts on a node communicator is a part of one. */
static inline void dma_event_begin(const dma_comm_t *comm, dma_task_t *task, dma_form_t form)
{
#ifdef DMA_HAVE_EVENTS
    task->began = 0;
    if (__builtin_expect(*comm->begin_listeners | *comm->end_listeners, 0) && !comm->inner) {
        task->form = form;
        task->began = dma_event_raise_begin(task);
    }
#else
    (void)comm;
    (void)task;
    (void)form;
#endif
}

/* A task has ended; with the lock, in any thread. */
static inline void dma_event_note_end(dma_task_t *task)
{
#ifdef DMA_HAVE_EVENTS
    if (__builtin_expect(task->began != 0, 0)) {
        dma_event_note(task);
    }
#else
    (void)task;
#endif
}

/* Tells the listeners that it has ended. Not in a thread of ours: where the application has one thread, Open MPI's lists of
 * events are not made for two. */
static inline void dma_event_end(const dma_task_t *task)
{
#ifdef DMA_HAVE_EVENTS
    if (__builtin_expect(task->began != 0, 0)) {
        dma_event_raise_end(task);
    }
#else
    (void)task;
#endif
}

/* ---- task.c ---- */

/* Resolves a call into a task. `arrays`: memory of dma_arrays_total that nothing else uses meanwhile, or NULL. */
dma_status_t dma_task_init(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, void *arrays);
/* Gives back what the task holds, except its own memory. */
void dma_task_drop(dma_task_t *task);
/* Bytes of the arrays of one task, and of the cursors where the communicator runs plans itself. */
size_t dma_arrays_total(const dma_comm_t *comm);
dma_status_t dma_task_arrays(dma_comm_t *comm, dma_task_t *task);
/* Queues an initialised task. */
void dma_task_post(dma_comm_t *comm, dma_task_t *task);
void dma_task_complete(dma_task_t *task, dma_status_t status);
/* A task has ended well. `before`: the task in front of it in the queue, or NULL. */
void dma_task_end(dma_comm_t *comm, dma_task_t *task, dma_task_t *before);

static inline dma_task_state_t dma_task_state(const dma_task_t *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed); /* with the lock */
}

static inline void dma_task_set_running(dma_task_t *task)
{
    atomic_store_explicit(&task->state, DMA_TASK_RUNNING, memory_order_relaxed); /* with the lock */
}

/* ---- state.c: what coll_dma_state reads (state.h) ---- */

void dma_state_init(dma_proc_t *proc, const char *job, int rank);
void dma_state_close(dma_proc_t *proc);
/* Gets a row for the communicator, and gives it back; without the lock of the process. */
void dma_state_take(dma_comm_t *comm);
void dma_state_give_back(dma_comm_t *comm);
/* The state of the communicator has changed. */
void dma_state_update(dma_comm_t *comm);
/* Is its wait so long that it is to be shown now? */
bool dma_state_is_due(const dma_comm_t *comm, double now);
void dma_state_show_wait(dma_comm_t *comm, const dma_state_wait_t *wait, double now);

/* ---- tracing.c ---- */

/* Traces a communicator whose set-up has ended, if the user wants that. */
void dma_comm_begin_trace(dma_comm_t *comm);
/* A task of a traced communicator has got its sequence number. */
void dma_task_trace_begin(const dma_task_t *task, uint64_t entered);

static inline void dma_state_count_begun(const dma_comm_t *comm)
{
    atomic_store_explicit(&comm->row->begun, comm->seq, memory_order_relaxed);
}

static inline void dma_state_count_completed(const dma_comm_t *comm, uint64_t seq)
{
    atomic_store_explicit(&comm->row->completed, seq, memory_order_relaxed);
}

/* ---- host.c: the host route. The device route uses the same window. ---- */

dma_status_t dma_host_advance(dma_comm_t *comm, dma_task_t *task);
/* Chooses, builds and binds the host plan, and starts it. DMA_AGAIN: it must wait for its turn. */
dma_status_t dma_host_bind(dma_comm_t *comm, dma_task_t *task);
/* A run has ended. */
void dma_host_finish(dma_comm_t *comm, dma_task_t *task);
/* The ranks that have not entered the call; of a running task, those whose flags its programs wait for. */
dma_wait_t dma_host_waits_for_entry(const dma_comm_t *comm, const dma_task_t *task);
dma_wait_t dma_host_waits_for_flag(const dma_comm_t *comm, const dma_task_t *task);
uint64_t dma_host_position(const dma_comm_t *comm, const dma_task_t *task);
void dma_host_predict(const dma_comm_t *comm, const dma_task_t *task, dma_prediction_t *prediction);

/* ---- absent.c ---- */

/* In a set-up, which has waited since comm->since. */
void dma_absent_watch(dma_comm_t *comm, double now);

/* ---- setup/setup.c ---- */

dma_status_t dma_setup_begin(dma_comm_t *comm);
/* DMA_OK: finished, and comm->state says how. */
dma_status_t dma_setup_advance(dma_comm_t *comm);
void dma_setup_drop(dma_comm_t *comm);
/* Ends a set-up in which not all first messages have come. */
void dma_setup_cancel(dma_comm_t *comm);
/* Of a set-up that is under way. */
dma_wait_t dma_setup_waits_for(const dma_comm_t *comm, const char **phase);
/* Tells peers that can be READY already that this rank has failed. */
void dma_setup_poison(dma_comm_t *comm, dma_status_t status);

/* ---- setup/channel.c ---- */

/* Can a channel be set up without messages? Equal on all ranks, unless one has failed the parent. */
bool dma_setup_channel_is_possible(const dma_comm_t *comm);
/* Does so: READY. Blocking, without locks. DMA_UNSUPPORTED, on all ranks: a rank has no room, and a set-up with messages would not
 * find any. Any other status: its parent has failed. */
dma_status_t dma_setup_channel(dma_comm_t *comm);

/* ---- proc.c, arenas.c, report.c, active.c ---- */

/* The GPU runtime of the process; NULL: none so far. */
static inline const struct dma_gpu_runtime *dma_proc_runtime(const dma_proc_t *proc)
{
    return proc->runtime ? proc->runtime : dma_gpu_runtime_loaded();
}

/* On failure *why is the reason. */
dma_status_t dma_proc_arena(dma_proc_t *proc, dma_arena_t **arena, dma_why_t *why);
dma_status_t dma_proc_file_arena(dma_proc_t *proc, size_t bytes, dma_arena_t **arena, dma_why_t *why);
/* Memory that is never device memory. */
dma_plain_t dma_proc_plain(dma_proc_t *proc);
/* Bytes of shared memory that this process may still take. */
size_t dma_proc_left(dma_proc_t *proc);
void dma_proc_retire_file(dma_proc_t *proc, dma_arena_t *arena);
/* No communicator is left. */
void dma_proc_close_arenas(dma_proc_t *proc);
void dma_proc_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* From now on reports of the calling thread are kept until another thread runs progress, and printed there. */
void dma_reports_keep(bool keep);
void dma_proc_print_kept(dma_proc_t *proc);
/* The next communicator to be advanced, with its lock; NULL: another thread has its lock, or there is none. False: another thread has the
 * list. */
bool dma_proc_next_active(dma_proc_t *proc, dma_comm_t **comm);
/* The next one whose notices are to be polled, with its lock, or NULL. */
dma_comm_t *dma_proc_next_polled(dma_proc_t *proc);

static inline void dma_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
