/*
 * What the component sees of the core: a process (once), communicators, calls.
 *
 * A dma_proc_t stands for this process: its arenas and its mappings of other processes' arenas. A dma_comm_t stands for
 * one intracommunicator, of one node's ranks or over several nodes. Creating one is local, cheap and touches no shared memory;
 * the first call starts its set-up (a task over the host services), which ends, equal on all ranks, READY or ASIDE.
 *
 * Blocking use:
 *     status = dma_comm_prepare(comm);          waits for the set-up; free of cost once it is READY
 *     DMA_UNSUPPORTED: ASIDE, call the module below (the same answer on every rank); dma_comm_reason() says why
 *     status = dma_comm_run(comm, &call);
 *
 * After an error the communicator is poisoned: every later call that moves data returns the same status.
 */
#ifndef DMA_COMM_H
#define DMA_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/host.h"
#include "dma/params.h"
#include "dma/plan.h"

typedef struct dma_proc dma_proc_t;
typedef struct dma_comm dma_comm_t;
typedef struct dma_task dma_task_t;
typedef struct dma_route dma_route_t; /* core/route.h */

/* All routes beside the host route (routes.c), for dma_proc_config_t; ended by NULL. */
extern const dma_route_t *const dma_routes[];

struct dma_gpu_runtime;
struct dma_gpu_engine;

typedef struct dma_proc_config {
    const char *session_dir; /* where the fall-back file of the arena goes, or NULL */
    const dma_host_t *host;
    dma_params_t params;
    const dma_route_t *const *routes;            /* dma_routes; NULL: host memory inside one node only */
    const struct dma_net_ops *net_ops;           /* to other nodes (dma/net.h); NULL: none */
    const struct dma_gpu_runtime *runtime;       /* NULL: what the application has loaded */
    const struct dma_gpu_engine *const *engines; /* that device memory may be served by, ended by NULL; NULL: all */
} dma_proc_config_t;

dma_status_t dma_proc_create(const dma_proc_config_t *config, dma_proc_t **proc);
/* After the last communicator is gone. */
void dma_proc_destroy(dma_proc_t *proc);

typedef struct dma_comm_config {
    void *handle; /* passed to the host services */
    int rank;
    int nranks;
    /* Where it says whether several threads may call at once (on different communicators). It may become true while none of
     * them does; NULL: never. */
    const bool *threads;
    const char *text;   /* name for messages to the user; copied */
    bool nodes;         /* over several nodes; then */
    int first;          /* the lowest rank of the communicator on this one */
    dma_comm_t *parent; /* a communicator of the same ranks, whose failure is this one's; NULL: none */
} dma_comm_config_t;

dma_status_t dma_comm_create(dma_proc_t *proc, const dma_comm_config_t *config, dma_comm_t **comm);
/* Local. Gives the shared memory back once the peers have left as well. */
void dma_comm_destroy(dma_comm_t *comm);

typedef enum dma_comm_state {
    DMA_COMM_NEW,
    DMA_COMM_SETUP, /* messages under way */
    DMA_COMM_READY,
    DMA_COMM_ASIDE, /* agreed by all: not for us */
    DMA_COMM_POISONED,
} dma_comm_state_t;

dma_comm_state_t dma_comm_state(const dma_comm_t *comm);
/* Why it is ASIDE or POISONED; never NULL. */
const char *dma_comm_reason(const dma_comm_t *comm);

/* Blocking set-up: DMA_OK when READY, DMA_UNSUPPORTED when ASIDE, else the error that poisoned it. */
dma_status_t dma_comm_prepare(dma_comm_t *comm);

/* One side of a call in the caller's terms: a block per rank (an all-gather's send side: one block, number 0). */
typedef struct dma_side {
    void *addr;
    bool dense;       /* the bytes of a block are contiguous, elements are `size` bytes apart; else they are packed and
                         unpacked through the host services */
    uint8_t width;    /* of the numbers in counts and displs: sizeof(int) or sizeof(int64_t) */
    size_t size;      /* bytes of data in an element */
    ptrdiff_t extent; /* from one element to the next */
    ptrdiff_t lb, ub; /* the bytes that an element touches: from addr + lb to addr + ub */
    void *type;       /* for the host services */
    size_t count;     /* elements per block; block b is at element b * count */
    const void *counts;                    /* when set: elements of every block */
    const void *displs;                    /* and their element displacements */
    const struct dma_gpu_runtime *runtime; /* the core's: whose memory it is, NULL: the host's, */
    int device;                            /* and on which device */
} dma_side_t;

/* A collective call. Counts and displacements are read when the call is posted and not again. */
typedef struct dma_call {
    dma_coll_t coll;
    bool in_place; /* `send` is not looked at */
    dma_side_t send, recv;
    uint32_t note; /* of a posted call: what else all ranks must be of one mind about */
} dma_call_t;

/* No rank has anything to move, as all of them can see: such a call is no call, takes no number and sets nothing up. */
bool dma_call_empty(const dma_call_t *call, int nranks);

/* Blocking. Needs a READY communicator. */
dma_status_t dma_comm_run(dma_comm_t *comm, const dma_call_t *call);

/* A call of this rank cannot even be described, as for want of memory, and its number is lost: the communicator fails, on all
 * ranks, with this status; where the set-up has to end first, from dma_proc_progress, and it is to stay until
 * then. */
void dma_comm_lose(dma_comm_t *comm, dma_status_t status);

/* What happens when a task completes: called without any lock, from whoever's progress completed it. */
typedef void (*dma_done_t)(void *arg, dma_status_t status);

/* Non-blocking. The call matches the other calls of the communicator, blocking or not, in order, and may be posted before
 * the set-up has finished. When the communicator turns out to be ASIDE, posted calls are done by messages on all ranks, so
 * a non-blocking call never goes to the module below. A call that is wrong in itself, or that finds no memory, fails the
 * communicator: with an error here or, if the set-up has to end first, in `done`.
 *
 * The task is in memory of the caller's, which is free again when `done` is called or when an error is returned. A call that
 * ends before this returns says so in *outcome, and `done` is not called; else *outcome is DMA_AGAIN. Small calls spin for a
 * moment for that. With `outcome` NULL, `done` is called in any case. */
#define DMA_TASK_BYTES 576
#define DMA_TASK_ALIGN 16
dma_status_t dma_comm_post_in(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, void *memory,
                              dma_status_t *outcome);
/* DMA_AGAIN while it runs. For tasks without `done`: a task with it may be touched once more before `done` is called. */
dma_status_t dma_task_test(dma_task_t *task);

/* Persistent: a channel is a call with frozen arguments and with shared memory of its own, so that channels are started in
 * any order, different on every rank. Collective and blocking. Without shared memory, on any communicator, its starts are
 * done by messages. */
typedef struct dma_channel dma_channel_t;
dma_status_t dma_channel_create(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg,
                                dma_channel_t **channel);
/* One start at a time; `done` ends it, or `outcome` as in dma_comm_post_in. */
dma_status_t dma_channel_start(dma_channel_t *channel, dma_status_t *outcome);
/* Local, when not started. */
void dma_channel_destroy(dma_channel_t *channel);

/* Around a collective module that does not know device memory: host memory in place of whatever sides of the call are
 * device memory. Local: what buffers are is nobody else's concern. */
typedef struct dma_bounce dma_bounce_t;
/* *bounce NULL: no side is device memory. Else `dma_bounce_in` has to be called before the module is, `dma_bounce_out`
 * when its collective has ended, as often as it is done, and dma_bounce_free when it will not be again. The communicator
 * and the call's counts and displacements are needed until then. */
dma_status_t dma_bounce_make(dma_comm_t *comm, const dma_call_t *call, dma_bounce_t **bounce);
dma_status_t dma_bounce_in(dma_bounce_t *bounce);
dma_status_t dma_bounce_out(dma_bounce_t *bounce);
void dma_bounce_free(dma_bounce_t *bounce);
/* What to pass to the module for the user's address of a side. */
void *dma_bounce_send(const dma_bounce_t *bounce, const void *user);
void *dma_bounce_recv(const dma_bounce_t *bounce, void *user);

/* Moves all tasks and set-ups of the process on; returns how many completed. Never waits: safe in a progress callback,
 * also a recursive one. */
int dma_proc_progress(dma_proc_t *proc);
/* Hears what failures peers on other nodes tell communicators without work of, and passes that on. To be called now and then,
 * for ever; most calls cost an addition. Never waits. */
void dma_proc_poll_notices(dma_proc_t *proc);
/* Tasks and set-ups that dma_proc_progress would have to look at: no callback is needed while this is 0. */
unsigned dma_proc_active(const dma_proc_t *proc);

#endif
