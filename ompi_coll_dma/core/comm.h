/*
 * The insides of a process and of a communicator, shared by the files of this folder (and by unit tests).
 *
 * A call becomes a task with the next sequence number. Tasks wait in the communicator's queue, in call order, until they
 * complete; they start in call order too, each when
 *   - the set-up has finished,
 *   - its place in the ring is free (window.h), and
 *   - no earlier streaming task is still running, if it streams itself.
 * Started tasks move on independently and may complete in any order.
 *
 * Only the holder of the communicator's lock touches any of this. The lock is never waited for in progress, and no
 * foreign code that could come back here runs under it but the host's isend, irecv and test: whoever comes back that way
 * finds the lock taken and turns away.
 */
#ifndef DMA_TASK_COMM_H
#define DMA_TASK_COMM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "dma/clock.h"
#include "dma/comm.h"
#include "dma/engine.h"
#include "node/window.h"
#include "plan/gpu/profile.h"
#include "plan/profile.h"

#define DMA_MEMO            64    /* choices remembered by block size */
#define DMA_ALLTOALLV_BYTES 65536 /* what the choice takes an all-to-all-v's blocks for: nobody knows them all */

#define DMA_WHY_BYTES 128 /* of a reason in words */

typedef struct dma_file_arena {
    struct dma_file_arena *next;
    dma_arena_t *arena;
} dma_file_arena_t;

struct dma_proc {
    const dma_host_t *host;
    dma_params_t params;
    char *session_dir;
    char *profile_path;
    pthread_mutex_t lock;
    dma_arena_t *arena;               /* the memfd, made at the first set-up */
    char arena_failed[DMA_WHY_BYTES]; /* why there is none; not tried again */
    dma_file_arena_t *retired;        /* file arenas whose readers have not all left */
    size_t file_bytes;                /* in file arenas */
    dma_comm_t *busy, *busy_last;     /* communicators with tasks or a set-up under way */
    _Atomic unsigned nbusy;
    dma_comm_t *listening; /* over several nodes and READY, but channels; with the lock */
    _Atomic unsigned listened;
    char *gpu_profile_path, *sysfs;
    const struct dma_gpu_runtime *runtime;
    const struct dma_gpu_engine *const *engines;
    pthread_mutex_t device_lock; /* guards share, devices, relays and writers; device.h */
    _Atomic int armed;           /* persistent calls whose programs the engines have beforehand */
    struct dma_ipc *ipc;
    struct dma_device *devices;
    struct dma_relay *relays;
    struct dma_writer *writers;
    const struct dma_wire *wire; /* to other nodes; NULL: none */
    char *net_profile_path;
    void *net; /* opened at the first need, with the lock */
    bool net_tried;
    _Atomic uint32_t next_id; /* of communicators over several nodes whose rank 0 is here */
};

typedef enum dma_task_state {
    DMA_TASK_QUEUED,
    DMA_TASK_RUNNING,
    DMA_TASK_COMPLETE,
} dma_task_state_t;

struct dma_task {
    dma_task_t *next; /* in the queue, by sequence; then in the list of those to deliver */
    dma_comm_t *comm;
    _Atomic dma_task_state_t state;
    dma_status_t status; /* once complete */
    dma_coll_t coll;
    bool in_place;
    bool keep_own;  /* the own block needs no unpacking */
    uint64_t bytes; /* of the largest block */
    dma_run_t run;
    dma_cursor_t cursor;               /* enough for a plan with one program */
    void *arrays;                      /* dma_arrays_t, then cursors; NULL: not needed so far */
    bool own_arrays;                   /* else the communicator's */
    char *send_staging, *recv_staging; /* packed blocks of derived datatypes */
    dma_side_t unpack;                 /* where recv_staging goes at completion */
    struct dma_messages *messages;     /* ASIDE: the call by messages */
    struct dma_device_call *device;    /* device memory: device.h */
    dma_done_t done;
    void *arg;
};

/* Staging memory of one side of a call. */
typedef struct dma_staging {
    size_t bytes;
    _Alignas(max_align_t) char memory[];
} dma_staging_t;

typedef struct dma_memo {
    uint64_t key; /* of operation, bytes, and in place where the choice looks at it; 0: empty */
    dma_choice_t choice;
    dma_plan_t *plans[2]; /* by in_place */
} dma_memo_t;

struct dma_setup;

struct dma_comm {
    dma_proc_t *proc;
    const dma_host_t *host;
    void *handle;
    int rank, nranks;
    const bool *threads; /* may others be in here too? It may become true while nobody is */
    _Atomic dma_comm_state_t state;
    dma_status_t error;  /* POISONED: with what */
    dma_status_t doomed; /* will be POISONED as soon as the set-up has ended; else 0 */
    char doom[192];
    dma_comm_t *parent;          /* of a channel: its failure is ours */
    struct dma_cluster *cluster; /* over several nodes: cluster.h */
    _Atomic int locked;

    /* READY */
    const dma_engine_t *engine;
    dma_window_t window;
    dma_arena_t *file_arena; /* where the block is when not in the process's memfd */
    dma_profile_t profile;
    dma_plan_req_t req;           /* the agreed part of every request */
    int forced;                   /* variant, or -1 */
    bool refusal_reported;        /* it has been said that this rank could not read a peer's memory */
    bool oversubscribed;          /* more ranks than cores: switch rather than spin */
    uint64_t seq;                 /* of the last task */
    uint64_t *stream;             /* by rank: chunks put into its stream so far; then the same of */
    uint64_t *pair_out, *pair_in; /* the streams of pairs, ours to it and its to us */
    void *arrays;                 /* of the blocking call: there is one at a time */
    dma_task_t *head, *tail, *streaming;
    dma_task_t *completed;               /* to be delivered by whoever unlocks */
    _Atomic(dma_staging_t *) staging[2]; /* of a call that has ended, for the next: send, receive */
    dma_memo_t memo[DMA_MEMO];
    dma_plan_t **plans; /* [operation][variant][in_place] */

    struct dma_device_comm *device; /* made at the first call with device memory, if this rank has an engine */
    dma_gpu_profile_t gpu_profile;  /* agreed, as the next two */
    int gpu_forced;
    uint32_t gpu_queues;

    bool wants_device, all_device; /* a channel's: this rank, all ranks would have the engines do it */
    dma_geom_t wanted;             /* a channel's; all 0: by the parameters */
    struct dma_setup *setup;
    unsigned missed_posts; /* posts in a row that have looked for their peers in vain */
    dma_comm_t *next_busy, *previous_busy;
    bool is_busy;
    dma_comm_t *next_listening;
    bool listens;
    unsigned watched; /* turns since the oldest task changed */
    uint64_t watched_seq;
    double since, dead_checked;
    bool warned;
    char *text;
    char reason[320];
};

/* Everything below: with the communicator's lock held. */

/* What our descriptors say besides operation and bytes. */
static inline uint64_t dma_comm_sign_flags(const dma_comm_t *comm)
{
    return comm->refusal_reported && comm->req.cross_memory ? DMA_SIGN_REFUSED : 0;
}

/* Moves the set-up and all tasks on; returns how many of them ended. */
int dma_comm_advance(dma_comm_t *comm);
/* Fails every task, now and later. */
void dma_comm_fail(dma_comm_t *comm, dma_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A turn has passed in which a task or the set-up did not complete: looks for evidence of failure, and at the clock, now
 * and then. */
void dma_comm_watch(dma_comm_t *comm);
/* Registers the communicator with the process while it has work. */
void dma_comm_busy(dma_comm_t *comm, bool busy);
/* Registers it for dma_proc_poll_notices: others may hear of a failure through this rank alone, which need not have a call. */
void dma_comm_set_listening(dma_comm_t *comm, bool listens);

static inline bool dma_comm_trylock(dma_comm_t *comm)
{
    if (!*comm->threads) {
        /* one thread: the lock only tells a recursive caller to turn away */
        if (atomic_load_explicit(&comm->locked, memory_order_relaxed)) {
            return false;
        }
        atomic_store_explicit(&comm->locked, 1, memory_order_relaxed);
        return true;
    }
    return !atomic_exchange_explicit(&comm->locked, 1, memory_order_acquire);
}

void dma_comm_deliver(dma_comm_t *comm);

/* Unlocks, then tells the owners of tasks that have completed meanwhile. */
static inline void dma_comm_unlock(dma_comm_t *comm)
{
    if (__builtin_expect(comm->completed != NULL, 0)) {
        dma_comm_deliver(comm);
        return;
    }
    atomic_store_explicit(&comm->locked, 0, memory_order_release);
}

/* The oldest call that has not been completed here, or the last one. */
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

/* comm.c: posts a call in a task of the caller's; without the lock. The task is free again when `done` is called.
 * `outcome`: as in dma_comm_post_in. */
dma_status_t dma_comm_post_task(dma_comm_t *comm, const dma_call_t *call, void *arrays, dma_done_t done, void *arg,
                                dma_task_t *task, dma_status_t *outcome);

/* The same for a task that has been placed. */
dma_status_t dma_comm_post_resolved(dma_comm_t *comm, dma_done_t done, void *arg, dma_task_t *task,
                                    dma_status_t *outcome);

/* comm.c: begins the set-up at the first call */
dma_status_t dma_comm_begin(dma_comm_t *comm);

/* wait.c: without the lock */
dma_status_t dma_task_wait(dma_task_t *task);
void dma_setup_wait(dma_comm_t *comm);

static inline bool dma_task_done(const dma_task_t *task)
{
    /* acquire: another thread may have completed it */
    return atomic_load_explicit(&task->state, memory_order_acquire) == DMA_TASK_COMPLETE;
}

/* task.c */
size_t dma_plans_count(void); /* in comm->plans */
dma_status_t dma_task_init(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call, void *arrays);
void dma_task_drop(dma_task_t *task); /* what a task holds but its own memory */
size_t dma_arrays_total(int nranks);  /* arrays and cursors of one task */

/* Chooses, builds and binds the host plan, and starts it. DMA_AGAIN: it must wait for its turn. */
dma_status_t dma_task_bind(dma_comm_t *comm, dma_task_t *task);
dma_status_t dma_task_arrays(dma_comm_t *comm, dma_task_t *task);

/* place.c */
dma_status_t dma_task_resolve(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call);
dma_status_t dma_task_unpack(dma_task_t *task);
void dma_task_unstage(dma_task_t *task);

/* messages.c: a task of an ASIDE communicator */
dma_status_t dma_messages_advance(dma_task_t *task);
void dma_messages_drop(dma_task_t *task);

void dma_task_post(dma_comm_t *comm, dma_task_t *task);
int dma_tasks_advance(dma_comm_t *comm);
void dma_task_complete(dma_task_t *task, dma_status_t status);

/* setup.c */
dma_status_t dma_setup_begin(dma_comm_t *comm);
/* DMA_OK: finished, and comm->state says how. */
dma_status_t dma_setup_advance(dma_comm_t *comm);
void dma_setup_drop(dma_comm_t *comm);
/* Tells peers that may be READY already that this rank has failed. */
void dma_setup_poison(dma_comm_t *comm, dma_status_t status);

/* proc.c */
/* On failure `why`, of DMA_WHY_BYTES, gets the reason. */
dma_status_t dma_proc_arena(dma_proc_t *proc, dma_arena_t **arena, char *why);
dma_status_t dma_proc_file_arena(dma_proc_t *proc, size_t bytes, dma_arena_t **arena, char *why);
/* This process on the network; DMA_UNSUPPORTED: there is none. */
dma_status_t dma_proc_network(dma_proc_t *proc, void **net);
/* Bytes of shared memory that this process may still take. */
size_t dma_proc_left(dma_proc_t *proc);
void dma_proc_retire_file(dma_proc_t *proc, dma_arena_t *arena);
void dma_proc_report(dma_proc_t *proc, dma_report_t level, const char *topic, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static inline void dma_cpu_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
