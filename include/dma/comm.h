/*
 * What the component sees of the core: a process (once), communicators, calls.
 *
 * A dma_proc_t is the state of this process: its arenas and its mappings of other processes' arenas. A dma_comm_t is
 * one intracommunicator, of ranks of one node or of several nodes. Its creation is local and cheap, and touches no
 * shared memory. The first call starts its set-up, which uses messages of the host services. After it the communicator
 * is READY on all ranks, or ASIDE on all ranks.
 *
 * Blocking use:
 *     status = dma_comm_prepare(comm);          waits for the set-up; costs nothing when the communicator is READY
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
    const struct dma_net_ops *wire;              /* to other nodes (dma/net.h); NULL: none */
    const struct dma_gpu_runtime *runtime;       /* NULL: what the application has loaded */
    const struct dma_gpu_engine *const *engines; /* engines that may serve device memory, ended by NULL; NULL: all */
} dma_proc_config_t;

dma_status_t dma_proc_create(const dma_proc_config_t *config, dma_proc_t **proc);
/* All communicators of the process have been destroyed. */
void dma_proc_destroy(dma_proc_t *proc);

typedef struct dma_comm_config {
    void *handle; /* passed to the host services */
    int rank;
    int nranks;
    /* A flag that says whether several threads may call at the same time. It may become true later, while no thread is
     * in a call. NULL: one thread only. */
    const bool *threads;
    const char *text;   /* name for messages to the user; copied */
    bool nodes;         /* the ranks are on several nodes */
    int first;          /* with `nodes`: the lowest rank of the communicator on this node */
    dma_comm_t *parent; /* a communicator of the same ranks; if it fails, this one has failed too; NULL: none */
} dma_comm_config_t;

dma_status_t dma_comm_create(dma_proc_t *proc, const dma_comm_config_t *config, dma_comm_t **comm);
/* Local. The shared memory is reclaimed when the peers have left the communicator too. */
void dma_comm_destroy(dma_comm_t *comm);

typedef enum dma_comm_state {
    DMA_COMM_NEW,
    DMA_COMM_SETUP, /* messages under way */
    DMA_COMM_READY,
    DMA_COMM_ASIDE, /* all ranks have agreed that it is not served */
    DMA_COMM_POISONED,
} dma_comm_state_t;

dma_comm_state_t dma_comm_state(const dma_comm_t *comm);
/* Why it is ASIDE or POISONED; never NULL. */
const char *dma_comm_reason(const dma_comm_t *comm);

/* Blocking set-up: DMA_OK when READY, DMA_UNSUPPORTED when ASIDE, else the error that poisoned it. */
dma_status_t dma_comm_prepare(dma_comm_t *comm);

/* One side of a call as the caller describes it: a block per rank; the send side of an all-gather: block 0 only. */
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
    const void *counts;                    /* NULL, or the number of elements of each block */
    const void *displs;                    /* with `counts`: the displacement of each block, in elements */
    const struct dma_gpu_runtime *runtime; /* set by the core: the runtime whose memory it is; NULL: host memory */
    int device;                            /* set by the core: the device of the memory */
} dma_side_t;

/* A collective call. Counts and displacements are read when the call is posted and not again. */
typedef struct dma_call {
    dma_coll_t coll;
    bool in_place; /* `send` is not used */
    dma_side_t send, recv;
    uint32_t note; /* of a posted call: a further value that must be equal on all ranks */
} dma_call_t;

/* Whether no rank has bytes to move, and every rank knows that from its arguments. Such a call gets no sequence number
 * and starts no set-up. */
bool dma_call_empty(const dma_call_t *call, int nranks);

/* Blocking. Needs a READY communicator. */
dma_status_t dma_comm_run(dma_comm_t *comm, const dma_call_t *call);

/* This rank cannot make a call that the other ranks make, for example because there is no memory to describe it. So the
 * communicator fails with this status, on all ranks. If the set-up has to end first, it fails in dma_proc_progress; do
 * not destroy the communicator before that. */
void dma_comm_lose(dma_comm_t *comm, dma_status_t status);

/* Called when a task has completed, without any lock, by the thread whose progress completed it. */
typedef void (*dma_done_t)(void *arg, dma_status_t status);

/* Non-blocking. The call matches the other calls of the communicator, blocking or not, in order, and may be posted
 * before the set-up has finished. When the communicator turns out to be ASIDE, posted calls are done by messages on all
 * ranks, so a non-blocking call never goes to the module below. If the arguments of a call are wrong, or there is no
 * memory, the communicator fails: the error is returned here or, if the set-up has to end first, passed to `done`.
 *
 * The task is in `memory`, which belongs to the caller again when `done` is called or an error is returned. If the call
 * ends before this function returns, *outcome is its status and `done` is not called; otherwise *outcome is DMA_AGAIN.
 * Small calls poll for a moment, so that this happens more often. If `outcome` is NULL, `done` is always called. */
#define DMA_TASK_BYTES 576
#define DMA_TASK_ALIGN 16
dma_status_t dma_comm_post_in(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg, void *memory,
                              dma_status_t *outcome);
/* DMA_AGAIN while the task runs. Only for tasks without `done`: others may be in use until `done` is called. */
dma_status_t dma_task_test(dma_task_t *task);

/* Persistent calls. A channel is a call with fixed arguments and with shared memory of its own. So each rank may start
 * its channels in its own order. Creating one is collective and blocking. If there is no shared memory for it, its
 * starts are done by messages. */
typedef struct dma_channel dma_channel_t;
dma_status_t dma_channel_create(dma_comm_t *comm, const dma_call_t *call, dma_done_t done, void *arg,
                                dma_channel_t **channel);
/* One start at a time; `done` ends it, or `outcome` as in dma_comm_post_in. */
dma_status_t dma_channel_start(dma_channel_t *channel, dma_status_t *outcome);
/* Local. No start may be in progress. */
void dma_channel_destroy(dma_channel_t *channel);

/* A bounce replaces the sides of a call that are device memory by host memory, around a collective module that does not
 * support device memory. Local: other ranks do not need to know about it. */
typedef struct dma_bounce dma_bounce_t;
/* *bounce is NULL if no side is device memory. Otherwise call dma_bounce_in before each collective of the module,
 * dma_bounce_out after each, and dma_bounce_free after the last. The communicator and the counts and displacements of
 * the call must stay valid until then. */
dma_status_t dma_bounce_make(dma_comm_t *comm, const dma_call_t *call, dma_bounce_t **bounce);
dma_status_t dma_bounce_in(dma_bounce_t *bounce);
dma_status_t dma_bounce_out(dma_bounce_t *bounce);
void dma_bounce_free(dma_bounce_t *bounce);
/* The address to pass to the module instead of the user's address of a side. */
void *dma_bounce_send(const dma_bounce_t *bounce, const void *user);
void *dma_bounce_recv(const dma_bounce_t *bounce, void *user);

/* Advances all tasks and set-ups of the process; returns how many have completed. Never waits. So it is safe in a
 * progress callback, also a recursive one. */
int dma_proc_progress(dma_proc_t *proc);
/* Receives alarms from peers on other nodes for communicators that have no call in progress, and passes them on. To be
 * called at intervals until the process ends; most calls cost one addition. Never waits. */
void dma_proc_poll_notices(dma_proc_t *proc);
/* The number of tasks and set-ups that dma_proc_progress has to advance. If it is 0, no progress callback is needed. */
unsigned dma_proc_active(const dma_proc_t *proc);

#endif
