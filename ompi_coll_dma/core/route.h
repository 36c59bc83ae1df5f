/*
 * Routes: how the calls of a communicator are carried out.
 *
 *     host       ranks of one node, by their cores, through the window of the communicator (host.c, engine/host/)
 *     device     ranks of one node, by the engines of their GPUs (device/)
 *     cluster    ranks of several nodes (cluster/)
 *     self       a communicator of one rank (self.c)
 *     messages   every block is a message of the host services (messages.c); used when a communicator is ASIDE
 *
 * The core knows routes by this table only. A communicator gets its route when it is created: the first one in the list of
 * the process that serves the configuration, else the self route for one rank, else the host route. A second route can attach itself to a communicator when it
 * first has state there (dma_comm_attach): the device route does so at the first call with device memory.
 *
 * A task has a route when it is queued (dma_task_post). NULL stands for the host route, which the core calls directly: a small
 * host call makes no indirect call here. The route of a task is the first of
 *     - that of the communicator, if it has an `advance` (cluster, self),
 *     - that which resolved the call (device),
 *     - NULL.
 * When a communicator steps aside, its queued tasks and all later ones get the messages route.
 *
 * Hooks run with the communicator's lock held, except where noted. A hook that is NULL has nothing to do.
 */
#ifndef DMA_CORE_ROUTE_H
#define DMA_CORE_ROUTE_H

#include <stdbool.h>

#include "core/state.h"
#include "dma/comm.h"
#include "node/pause.h"

struct dma_gpu_runtime;
typedef struct dma_memory dma_memory_t;

typedef struct dma_prediction {
    int32_t variant; /* as in dma_event_t */
    uint64_t cost_ps;
} dma_prediction_t;

struct dma_route {
    const char *name;
    const dma_memory_t *memory; /* a kind of memory that this route brings along */

    /* The process ends; no communicator is left. Without a lock. */
    void (*proc_destroy)(dma_proc_t *proc);
    /* The process ends, and communicators are left: ends the threads of the route. Without a lock. */
    void (*proc_abandon)(dma_proc_t *proc);

    /* ---- a communicator ---- */

    /* Device memory whose bytes lie side by side is used where it is; else it is staged in host memory (dma_memory_t). */
    bool uses_device_memory;

    /* Can this route be that of such a communicator? NULL: it only attaches itself. */
    bool (*serves)(const dma_comm_config_t *config);
    dma_status_t (*create)(dma_comm_t *comm, const dma_comm_config_t *config);
    void (*destroy)(dma_comm_t *comm);

    /* The set-up. `setup_advance` returns DMA_AGAIN, or DMA_OK when it has ended; comm->state says how. */
    dma_status_t (*setup_begin)(dma_comm_t *comm);
    dma_status_t (*setup_advance)(dma_comm_t *comm);
    /* Ends a set-up in which not all first messages have come: a rank does not take part. NULL: there is no such rank. */
    void (*setup_cancel)(dma_comm_t *comm);

    /* The communicator has failed. `explain` may append to comm->reason what the route knows. After `stop` nothing that the
     * route has started touches a user's memory. */
    void (*explain)(dma_comm_t *comm, dma_status_t status);
    void (*stop)(dma_comm_t *comm, dma_status_t status);

    /* Evidence of failure: these call dma_comm_fail. `watch` runs in the turns of a wait in which nothing has completed: in
     * those that begin a next watch_mask + 1 turns (a power of two) of the wait. `watch_clock` of a route that is attached runs seldom and gets the time. */
    void (*watch)(dma_comm_t *comm);
    unsigned watch_mask;
    void (*watch_clock)(dma_comm_t *comm, double now);
    /* A READY communicator's oldest call is late. False: another rank of the node reports it, or it waits for nobody. */
    bool (*may_report)(dma_comm_t *comm);
    /* For a communicator without a call (dma_proc_poll_notices): DMA_OK, or what another rank has failed with. */
    dma_status_t (*poll_notices)(dma_comm_t *comm);

    /* Does the route hold something without a call that has to be given up after some time? `expire` does so when it is due. */
    bool (*holds)(const dma_comm_t *comm);
    void (*expire)(dma_comm_t *comm);

    /* Between two looks of a blocking wait, instead of the host's spinning. Without the lock. */
    void (*pause)(dma_comm_t *comm, dma_pause_t *pause, unsigned turn);

    /* A channel: the communicator of one persistent call. `channel_prepare` comes before its set-up, `channel_init` after it,
     * if it ended READY; both without the lock. */
    void (*channel_prepare)(dma_comm_t *comm, const dma_call_t *call);
    dma_status_t (*channel_init)(dma_comm_t *comm, const dma_call_t *call, void *arrays);

    /* ---- a call ---- */

    /* Begins a queued task when its turn has come, and moves a running one on. DMA_OK: it is over. DMA_AGAIN with the task
     * still queued: it, and those behind it, wait for their turn. */
    dma_status_t (*advance)(dma_comm_t *comm, dma_task_t *task);
    /* A task has just been posted: waits a bounded moment for its peers. */
    void (*spin)(dma_comm_t *comm, const dma_task_t *task);
    /* What the task waits for; task NULL: the set-up. `phase` is a word for where it is; NULL: none of its own. */
    dma_wait_t (*waits_for)(const dma_comm_t *comm, const dma_task_t *task);
    const char *(*phase)(const dma_comm_t *comm, const dma_task_t *task);
    /* The variant of the task, and what the cost model predicts, as far as they are known. NULL: there are none. */
    void (*predict)(const dma_comm_t *comm, const dma_task_t *task, dma_prediction_t *prediction);
    /* A number that changes while the running task moves on. */
    uint64_t (*position)(const dma_comm_t *comm, const dma_task_t *task);
    /* The task ends, well or not: gives back what the route holds for it. Without the lock. */
    void (*drop)(dma_task_t *task);
};

/* Memory that the ranks' cores must not touch: what the core asks of the code that knows it (device/). Without the lock. */
struct dma_memory {
    /* Resolves a call (resolve.h) that has such memory in it. DMA_UNSUPPORTED: it has none. */
    dma_status_t (*resolve)(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call,
                            const struct dma_gpu_runtime *rt);
    /* Resolves a call in host memory, because other ranks may have such memory in it. DMA_UNSUPPORTED: it is resolved as other
     * calls in host memory are. */
    dma_status_t (*join)(dma_comm_t *comm, dma_task_t *task, const dma_call_t *call);
    /* Elements of one block of a side in such memory, to and from packed bytes in host memory. */
    dma_status_t (*pack)(const dma_comm_t *comm, const dma_side_t *side, int block, size_t count, char *packed);
    dma_status_t (*unpack)(const dma_comm_t *comm, const dma_side_t *side, char *at, size_t count, const char *packed);
    /* Puts host memory in the place of what the task has in such memory; with the lock. */
    dma_status_t (*stage)(dma_task_t *task);
    /* Copies block 0 of the send side to block 0 of the receive side, wherever they are. For the self route. */
    dma_status_t (*copy_own)(dma_task_t *task);
    void (*drop)(dma_task_t *task);

    /* A persistent call. `serves`: could a route of this memory carry it out, as far as this rank sees? `init` is collective
     * and comes after the set-up if all ranks have said so. `start` makes a task for a start, if `init` has prepared them.
     * DMA_UNSUPPORTED: it has not, and the start is resolved as other calls are. After an error the task is to be posted as
     * one that could not be resolved. `prepare_next` does what is possible for the next start while one is under way. */
    bool (*serves)(dma_comm_t *comm, const dma_call_t *call);
    dma_status_t (*init)(dma_comm_t *comm, const dma_call_t *call, void *arrays);
    dma_status_t (*start)(dma_comm_t *comm, dma_task_t *task, void *arrays);
    void (*prepare_next)(dma_comm_t *comm);
};

extern const dma_route_t dma_route_host; /* host.c */
extern const dma_route_t dma_route_self; /* self.c */

#endif
