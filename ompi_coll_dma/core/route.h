/*
 * Routes: how the calls of a communicator are carried out.
 *
 *     host       ranks of one node, by their cores, through the window of the communicator (host.c, engine/host/)
 *     device     ranks of one node, by the engines of their GPUs (device/)
 *     cluster    ranks of several nodes (cluster/)
 *     messages   every block is a message of the host services (messages.c); used when a communicator is ASIDE
 *
 * The core uses routes through this table only. A communicator gets its route when it is created: the first route in
 * the list of the process that serves the configuration, otherwise the host route. A second route can attach itself to
 * a communicator when it first has state for it (dma_comm_attach): the device route does so at the first call with
 * device memory.
 *
 * A task has a route when it is queued (dma_task_post). NULL means the host route, which the core calls directly, so
 * that a small host call makes no indirect call here. The route of a task is the first of
 *     - the route of the communicator, if it has an `advance` (cluster),
 *     - the route that resolved the call (device),
 *     - NULL.
 * When a communicator becomes ASIDE, its queued tasks and all later ones get the messages route.
 *
 * Hooks run with the communicator's lock held, except where noted. A hook may be NULL; then it does nothing.
 */
#ifndef DMA_CORE_ROUTE_H
#define DMA_CORE_ROUTE_H

#include <stdbool.h>

#include "dma/comm.h"

struct dma_gpu_runtime;
typedef struct dma_memory dma_memory_t;

/* What the oldest call of a communicator waits for. */
typedef enum dma_wait_kind {
    DMA_WAIT_NONE,    /* nothing that can be named */
    DMA_WAIT_ENTRY,   /* `rank` has not entered the call */
    DMA_WAIT_FLAG,    /* `rank` has entered it and has not set a flag yet */
    DMA_WAIT_MESSAGE, /* a message of `rank` */
} dma_wait_kind_t;

typedef struct dma_wait {
    dma_wait_kind_t kind;
    int rank;
} dma_wait_t;

struct dma_route {
    const char *name;
    const dma_memory_t *memory; /* functions for memory that only this route can use; NULL: none */

    /* The dma_proc_t is destroyed; no communicator is left. Without a lock. */
    void (*proc_destroy)(dma_proc_t *proc);

    /* ---- a communicator ---- */

    /* Whether the route accesses contiguous device memory itself. Other device memory is staged in host memory. */
    bool uses_device_memory;

    /* Whether this route can be that of such a communicator. NULL: it only attaches itself. */
    bool (*serves)(const dma_comm_config_t *config);
    dma_status_t (*create)(dma_comm_t *comm, const dma_comm_config_t *config);
    void (*destroy)(dma_comm_t *comm);

    /* The set-up. `setup_advance` returns DMA_AGAIN, or DMA_OK when the set-up has ended; comm->state is its result. */
    dma_status_t (*setup_begin)(dma_comm_t *comm);
    dma_status_t (*setup_advance)(dma_comm_t *comm);

    /* The communicator has failed. `explain` may append the route's information to comm->reason. After `stop`, nothing
     * that the route has started accesses a user's memory. */
    void (*explain)(dma_comm_t *comm, dma_status_t status);
    void (*stop)(dma_comm_t *comm, dma_status_t status);

    /* These look for evidence of failure, and call dma_comm_fail if there is any. `watch` runs in every turn of a wait
     * in which nothing has completed, and decides itself in which turns it looks. `watch_clock` runs seldom and gets
     * the time. */
    void (*watch)(dma_comm_t *comm);
    void (*watch_clock)(dma_comm_t *comm, double now);
    /* For a communicator without a call (dma_proc_poll_notices): DMA_OK, or the status with which another rank has
     * failed. */
    dma_status_t (*poll_notices)(dma_comm_t *comm);

    /* Whether the route holds something, without a call in progress, that has to be released after some time. `expire`
     * releases it when the time is over. */
    bool (*holds)(const dma_comm_t *comm);
    void (*expire)(dma_comm_t *comm);

    /* Pauses between two polls of a blocking wait, instead of the pause of the host route. Without the lock. */
    void (*pause)(dma_comm_t *comm, unsigned turn);

    /* A channel: the communicator of one persistent call. `channel_prepare` comes before its set-up, `channel_init` after it,
     * if it ended READY; both without the lock. */
    void (*channel_prepare)(dma_comm_t *comm, const dma_call_t *call);
    dma_status_t (*channel_init)(dma_comm_t *comm, const dma_call_t *call, void *arrays);

    /* ---- a call ---- */

    /* Begins a queued task when its turn has come, and advances a running one. DMA_OK: the task has ended. DMA_AGAIN
     * with the task still queued: this task, and those behind it, wait for their turn. */
    dma_status_t (*advance)(dma_comm_t *comm, dma_task_t *task);
    /* A task has just been posted: polls its peers for a bounded time. */
    void (*spin)(dma_comm_t *comm, const dma_task_t *task);
    dma_wait_t (*waits_for)(const dma_comm_t *comm, const dma_task_t *task);
    /* The task ends, with success or with an error: releases what the route holds for it. Without the lock. */
    void (*drop)(dma_task_t *task);
};

/* The functions for memory that the ranks' cores must not access; device/ implements them. Without the lock. */
struct dma_memory {
    /* Resolves a call (resolve.h) with such memory. DMA_UNSUPPORTED: the call has none. */
    dma_status_t (*resolve)(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call,
                            const struct dma_gpu_runtime *rt);
    /* Copy elements of one block of a side, which is such memory, to and from packed bytes in host memory. */
    dma_status_t (*pack)(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *packed);
    dma_status_t (*unpack)(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count, const char *packed);
    /* Replaces the task's blocks in such memory by host memory. With the lock. */
    dma_status_t (*stage)(dma_task_t *task);
    void (*drop)(dma_task_t *task);

    /* A persistent call. `serves` returns whether a route of this memory could carry it out, as far as this rank can
     * decide. `init` is collective and comes after the set-up, if `serves` was true on all ranks. `start` makes the
     * task of a start, if `init` has prepared starts. */
    bool (*serves)(dma_comm_t *comm, const dma_call_t *call);
    dma_status_t (*init)(dma_comm_t *comm, const dma_call_t *call, void *arrays);
    bool (*start)(dma_comm_t *comm, dma_task_t *task, void *arrays);
};

extern const dma_route_t dma_route_host;     /* host.c */
extern const dma_route_t dma_route_messages; /* messages.c */

#endif
