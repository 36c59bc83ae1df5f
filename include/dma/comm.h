/*
 * The interface of the core for the component: a process, communicators, calls.
 *
 * A dma_proc_t is this process: its arenas and its mappings of other processes' arenas. There is one. A dma_comm_t is
 * an intracommunicator, on one node or over several nodes. Creating one is local and cheap, and uses no shared memory.
 * The first call begins its set-up, over several nodes one behind the first calls (net_first_calls). The set-up ends READY or ASIDE, equal on
 * all ranks.
 *
 * Blocking use:
 *
 *     dma_comm_prepare     waits for the set-up; costs almost nothing once the communicator is READY
 *       DMA_OK             READY: dma_comm_run
 *       DMA_UNSUPPORTED    ASIDE, on all ranks: call the next module; dma_comm_reason says why
 *
 * After an error the communicator is POISONED: every later call that moves data returns the same error.
 */
#ifndef DMA_COMM_H
#define DMA_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/counters.h"
#include "dma/events.h"
#include "dma/host.h"
#include "dma/in_stream.h"
#include "dma/params.h"
#include "dma/plan.h"

typedef struct dma_proc dma_proc_t;
typedef struct dma_comm dma_comm_t;
typedef struct dma_task dma_task_t;
typedef struct dma_route dma_route_t; /* core/route.h */

/* All routes except the host route, for dma_proc_config_t; ends with NULL. routes.c defines it. */
extern const dma_route_t *const dma_routes[];

struct dma_gpu_runtime;
struct dma_gpu_engine;

/* ---- the process ---- */

typedef struct dma_proc_config {
    const char *session_dir; /* folder for file arenas, or NULL */
    const char *job;         /* name of the job for coll_dma_state, and the rank of the process in it; NULL: none */
    int rank;
    const dma_host_t *host;
    dma_params_t params;
    dma_counters_t *counters;                    /* where the process counts; NULL: nobody reads its counters */
    const dma_events_t *events;                  /* where calls are announced; NULL: nowhere */
    const dma_route_t *const *routes;            /* dma_routes; NULL: host memory inside one node only */
    const struct dma_net_ops *net_ops;           /* network to other nodes (dma/net.h); NULL: none */
    const struct dma_gpu_runtime *runtime;       /* NULL: the one that the application has loaded */
    const struct dma_gpu_engine *const *engines; /* GPU engines that may be used, ends with NULL; NULL: all */
} dma_proc_config_t;

dma_status_t dma_proc_create(const dma_proc_config_t *config, dma_proc_t **proc);
/* After the last communicator has been destroyed. */
void dma_proc_destroy(dma_proc_t *proc);
/* For a process object that stays although the library may be unloaded: ends its threads. */
void dma_proc_abandon(dma_proc_t *proc);

/* Advances all tasks and set-ups of the process; returns how many completed. Never waits. May be called from a progress
 * callback, also recursively. */
int dma_proc_progress(dma_proc_t *proc);
/* Polls communicators without calls for failures that ranks on other nodes report, and fails them. Has to be called now
 * and then as long as the process lives; most calls only count. Never waits. */
void dma_proc_poll_notices(dma_proc_t *proc);
/* Number of communicators that dma_proc_progress has to advance. While it is 0, no progress callback is needed. */
unsigned dma_proc_active(const dma_proc_t *proc);

/* ---- communicators ---- */

typedef struct dma_comm_config {
    void *handle; /* passed to the host services */
    int rank;
    int nranks;
    /* Whether several threads may call at once, on different communicators. May become true while no thread is in a call.
     * NULL: never. */
    const bool *threads;
    const char *text; /* name of the communicator in messages to the user; copied */
    bool nodes;       /* over several nodes */
    int first;        /* with `nodes`: the lowest rank of the communicator on this node */
    /* With `nodes`: calls that the next module carries out (net_first_calls), equal on all ranks. */
    uint32_t first_calls;
    dma_comm_t *parent; /* a communicator of the same ranks: if it fails, this one fails too; NULL: none */
    const void *owner;  /* handle of the communicator in whose name it counts (dma/counters.h); NULL: its own */
} dma_comm_config_t;

dma_status_t dma_comm_create(dma_proc_t *proc, const dma_comm_config_t *config, dma_comm_t **comm);
/* Local. The shared memory is freed when the peers have destroyed their communicators too. */
void dma_comm_destroy(dma_comm_t *comm);

typedef enum dma_comm_state {
    DMA_COMM_NEW,
    DMA_COMM_SETUP, /* the set-up is under way */
    DMA_COMM_READY,
    DMA_COMM_ASIDE,    /* all ranks have agreed that coll/dma does not serve this communicator */
    DMA_COMM_POISONED, /* failed */
    DMA_COMM_FIRST,    /* over several nodes: its first calls have gone elsewhere, and the set-up has not begun */
} dma_comm_state_t;

dma_comm_state_t dma_comm_state(const dma_comm_t *comm);
/* Why the communicator is ASIDE or POISONED; never NULL. */
const char *dma_comm_reason(const dma_comm_t *comm);

/* Before the set-up: rank `absent` has not loaded coll/dma, so all calls go to the next module, in all forms. Each rank does so by
 * itself, when it has found that out. If it has not, it finds out in the set-up (core/absent.c). */
void dma_comm_leave(dma_comm_t *comm, int absent);
/* ASIDE for this reason. */
bool dma_comm_is_left(const dma_comm_t *comm);

/* Waits for the set-up. DMA_OK: READY. DMA_UNSUPPORTED: ASIDE. Else the error of a POISONED communicator. */
dma_status_t dma_comm_prepare(dma_comm_t *comm);

/* ---- calls ---- */

/* One side of a call, as the caller gives it: one block per rank. The send side of an all-gather is one block, number
 * 0. */
typedef struct dma_side {
    void *addr;
    bool dense;         /* the bytes of a block are contiguous; else the host services pack and unpack it */
    bool in_bytes;      /* displacements are in bytes, not in elements */
    uint8_t width;      /* of a number in counts and displs: sizeof(int) or sizeof(int64_t) */
    size_t size;        /* bytes of data in an element */
    ptrdiff_t extent;   /* from one element to the next */
    ptrdiff_t lb, ub;   /* an element at `addr` touches the bytes from addr + lb to addr + ub */
    void *type;         /* datatype, for the host services */
    size_t count;       /* elements per block; block b begins at element b * count */
    const void *counts; /* elements of each block; NULL: `count` */
    const void *displs; /* with counts: displacement of each block */
    /* With counts: the datatype of each block, if they differ. Then `dense` says that all blocks are dense, and what else describes
     * elements says nothing. Read until the call has ended. NULL: all blocks have the same. */
    void *const *types;
    /* Set by the core, if the cores must not access the memory: its runtime (NULL: host memory) and device. */
    const struct dma_gpu_runtime *runtime;
    int device;
    bool
        scattered; /* it is device memory, and not all of it is in one allocation: no copy of the runtime may have rows in two */
} dma_side_t;

/* A collective call. Counts and displacements are read when the call is posted and not again. */
typedef struct dma_call {
    dma_coll_t coll;
    bool in_place; /* `send` is ignored */
    dma_side_t send, recv;
    uint32_t note; /* of a posted call: a further value that must be equal on all ranks; part of the sign (dma_sign) */
    struct dma_parts *parts; /* of a persistent call: it has partitions (dma/parts.h); NULL: none */
} dma_call_t;

/* Does every rank know from its arguments that no rank has data to move? Such a call takes no sequence number and
 * begins no set-up. */
bool dma_call_empty(const dma_call_t *call, int nranks);

/* Of a blocking call that is not empty, before dma_comm_prepare: is it one of the first of a communicator over several nodes,
 * which the next module carries out (net_first_calls)? Equal on all ranks. Then it counts as begun. */
bool dma_comm_begin_first(dma_comm_t *comm, const dma_call_t *call);
/* The next module has carried out a blocking call. */
void dma_comm_end_first(dma_comm_t *comm);

/* Counts a call that the next module does: a blocking one, or one that does not block, on a communicator that has been left. */
void dma_comm_count_below(dma_comm_t *comm, dma_form_t form, dma_coll_t coll);
/* Blocking. The communicator must be READY. */
dma_status_t dma_comm_run(dma_comm_t *comm, const dma_call_t *call);

/* The caller could not build a call of this rank, for example without memory, so its sequence number is lost: fails the
 * communicator on all ranks with `status`. During the set-up the failure waits for its end, in dma_proc_progress; the
 * communicator must not be destroyed before. */
void dma_comm_fail_call(dma_comm_t *comm, dma_status_t status);

/* Called when a task completes, without a lock, by the thread whose progress has completed it. */
typedef void (*dma_done_t)(void *arg, dma_status_t status);

/* Posts a non-blocking call. Calls of a communicator match in order, blocking or not. A call may be posted before the set-up has
 * ended. If the set-up ends ASIDE, posted calls are done by messages on all ranks, so a non-blocking call never goes to the next
 * module. So are the first calls of a communicator over several nodes (net_first_calls). A call with wrong arguments, or without
 * memory, fails the communicator: the error is returned here or, during the set-up, passed to `done`.
 *
 * The task is placed in `memory`, of DMA_TASK_BYTES. The caller may use it again when `done` has been called, when *outcome is
 * not DMA_AGAIN, or when an error is returned. If the call completes before this returns, *outcome is its status and `done` is
 * not called; else *outcome is DMA_AGAIN. A post polls its peers for a short time for that. With `outcome` NULL,
 * `done` is called in any case. */
#define DMA_TASK_BYTES 640
#define DMA_TASK_ALIGN 16
dma_status_t dma_comm_post_in(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, void *memory,
                              dma_status_t *outcome);
/* The status of a task; DMA_AGAIN: it has not completed. Only for tasks without `done`: the core still uses a task
 * until it has called `done`. */
dma_status_t dma_task_test(dma_task_t *task);

/* ---- persistent calls ---- */

/* A channel is a call with fixed arguments and separate shared memory, so every rank may start its channels in its own
 * order. Making one is collective and blocking. If there is no shared memory, the starts are done by messages. */
typedef struct dma_channel dma_channel_t;
dma_status_t dma_channel_create(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg,
                                dma_channel_t **channel);
/* At most one start of a channel may be under way. It ends as described for dma_comm_post_in. */
dma_status_t dma_channel_start(dma_channel_t *channel, dma_status_t *outcome);
/* Behind a start: gives the engines in advance what the next start needs, while they carry out this one. It is a function of its
 * own so that, of several starts, none waits for what another one prepares. Without it the next start takes longer. */
void dma_channel_prepare_next(dma_channel_t *channel);
/* Starts in a stream of the application (dma/in_stream.h). From the first one to `end` a start of the channel is under way, and no
 * other can be made. It ends as any other does. DMA_UNSUPPORTED: nothing has happened, and the channel can be started as usual.
 * After another error the channel has failed. Work behind a start in the stream waits until the start is complete. `end`: the stream
 * has done everything; or `broken`: it does not go on. */
dma_status_t dma_channel_start_in_stream(dma_channel_t *channel, dma_app_stream_t *stream,
                                         dma_in_stream_started_t *started);
/* Without a lock, before `end`: has the stream reached the start with this number? */
bool dma_channel_has_begun_in_stream(const dma_channel_t *channel, uint32_t number);
/* Before `end`: has a start failed, as far as is known? */
bool dma_channel_has_failed_in_stream(dma_channel_t *channel);
/* Before `end`: DMA_OK: the stream has done everything of the channel, though the runtime may not say so yet. DMA_AGAIN: not yet. Another
 * error: the device has failed. Does not use the stream, which may have been destroyed. */
dma_status_t dma_channel_look_in_stream(dma_channel_t *channel, const dma_app_stream_t *stream);
dma_status_t dma_channel_end_in_stream(dma_channel_t *channel, bool broken);
/* Whoever waits for streams calls this again and again: those of channels that have failed do not wait for other ranks. */
void dma_starts_push_on(void);
/* The stream is not used any more. */
void dma_proc_forget_stream(dma_proc_t *proc, dma_app_stream_t *stream);
/* The call, with the channel's own arrays. */
const dma_call_t *dma_channel_call(const dma_channel_t *channel);
/* Local. No start may be under way. */
void dma_channel_destroy(dma_channel_t *channel);

/* ---- device memory in calls of the next module ---- */

/* Host memory in place of those sides of a call that are device memory, for a module that cannot access device memory.
 * Local: other ranks need not know. */
typedef struct dma_bounce dma_bounce_t;
/* *bounce NULL: no side is device memory. Else call dma_bounce_in before each collective of the module, dma_bounce_out
 * after it, and dma_bounce_free at the end. The communicator and the call's counts and displacements must stay valid
 * until then. */
dma_status_t dma_bounce_make(dma_comm_t *comm, const dma_call_t *call, dma_bounce_t **bounce);
dma_status_t dma_bounce_in(dma_bounce_t *bounce);
dma_status_t dma_bounce_out(dma_bounce_t *bounce);
void dma_bounce_free(dma_bounce_t *bounce);
/* The address to pass to the module instead of the user's. */
void *dma_bounce_send(const dma_bounce_t *bounce, const void *user);
void *dma_bounce_recv(const dma_bounce_t *bounce, void *user);

#endif
