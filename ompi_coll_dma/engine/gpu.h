/*
 * The contract of GPU engines, which run the queue programs of a GPU plan (dma/plan.h), and the list of them.
 *
 *     unit      an engine that is open on one device of this process: queues, rings, streams
 *     binding   a unit that is bound to one communicator: the queue to each rank, the addresses of the communicator's words
 *
 * Both are opaque handles. dma_gpu_unit_t and dma_gpu_binding_t are never defined: each engine converts them to its own
 * types, such as dma_sdma_unit_t.
 *
 * A binding has at most one run at a time. `start` gives the queue programs to the hardware. All peers have entered the
 * call by then, so the programs do not have to wait for entries. At the end of each program the engine writes
 * run->epoch to the program's line (dma_window_queue), after everything that the program has copied is visible to all.
 * To wait for a program, poll its line. So an engine is never asked whether a run is complete; `check` only reports
 * faults.
 *
 * plan->progs[0] is the host program, which the core runs. An engine runs progs[1] to progs[nprogs - 1]. The line of
 * progs[i] is dma_window_queue(run->window, rank, i - 1) for the CPU, which stores with release, and for the device the
 * member `lines` of dma_gpu_bind_params_t plus 64 * (i - 1), or the word for that epoch in the same line (node/window.h). Of
 * the operations only COPY, COPY2 and SWAP are work: when a program runs, the flags of its WAIT operations have been reached,
 * and the SIGNAL at its end stands for its line.
 *
 * Threads and scope. The calls for one binding come one at a time, with the lock of its communicator. Those for different
 * bindings of a unit may come at the same time, so an engine locks what bindings share. `start` is called from Open MPI's
 * progress and should return when the programs are submitted; an engine without queues may run them there. No function is
 * called in the device's scope: where gpu/runtime.h says "scope", the engine calls `enter` and `leave`.
 *
 * Copies of one program may overlap and complete in any order. Programs are independent: no program waits for another
 * one. So an engine may run them one after the other, on fewer queues than there are programs, or as one batch.
 *
 * An engine replaces operations that its hardware does not have: a COPY2 whose two destinations it cannot write in one
 * operation becomes two copies, and a SWAP becomes copies through memory of the engine. Any length and any address is
 * allowed; an operation of 0 bytes does nothing.
 *
 * The blocks of a send buffer and of each receive buffer may have a shape (gpu/shape.h), but only if the engines of all
 * ranks concerned have the feature DMA_GPU_SHAPES, and never in a plan with SWAP operations.
 */
#ifndef DMA_GPU_ENGINE_H
#define DMA_GPU_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "dma/counters.h"
#include "dma/engine.h"
#include "engine/trigger.h"
#include "gpu/budget.h"
#include "gpu/runtime.h"
#include "gpu/shape.h"

#define DMA_GPU_WHY_BYTES 256 /* of a reason that a user can read */

/* Stores the reason in `why`, of DMA_GPU_WHY_BYTES, and returns DMA_UNSUPPORTED. */
static inline dma_status_t dma_gpu_refuse(char *why, const char *reason)
{
    snprintf(why, DMA_GPU_WHY_BYTES, "%s", reason);
    return DMA_UNSUPPORTED;
}

/* Counts for the process, if it has counters. */
static inline void dma_gpu_count(dma_counters_t *counters, int which, uint64_t n)
{
    if (counters) {
        dma_counters_add(counters, which, n);
        if (which > DMA_COUNT_REASON) { /* mostly known when this is compiled */
            DMA_PROBE2(way_out, 0, dma_reasons[which - DMA_COUNT_REASON].name);
        }
    }
}

#define DMA_GPU_ADVICE_BYTES 480

/* Appends a sentence to `advice`, of DMA_GPU_ADVICE_BYTES. NULL: nobody listens. */
void dma_gpu_advise(char *advice, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The receive buffer of a rank, in the address space of our device. */
typedef struct dma_target {
    uint64_t addr;
    uint64_t bytes;           /* of every block; unused if displs is set */
    const int64_t *displs;    /* of the blocks; NULL: block b is at b * bytes */
    const dma_shape_t *shape; /* of the blocks; NULL: their bytes are contiguous */
    uint64_t skip;            /* then: bytes of each block in front of the first that this run writes; else 0 */
} dma_target_t;

static inline uint64_t dma_target_addr(const dma_target_t *t, uint64_t block)
{
    return t->addr + (uint64_t)(t->displs ? t->displs[block] : (int64_t)(block * t->bytes));
}

/* The device's address of byte `skip` of an operand. */
static inline uint64_t dma_run_address(const dma_run_t *run, const dma_operand_t *o, uint64_t skip)
{
    if (o->base == DMA_BASE_SEND) {
        return (uint64_t)(uintptr_t)dma_blocks_addr(&run->send, (uint64_t)o->block) + o->offset + skip;
    }
    return dma_target_addr(&run->targets[o->rank], (uint64_t)o->block) + o->offset + skip;
}

/* Where the words are that say what has come, of a receiver, in the address space of our device. */
typedef struct dma_parts_target {
    uint64_t arrived; /* bank 0, partition 0 of the block of this rank */
    uint64_t bank_bytes;
    uint32_t rparts; /* of a block */
} dma_parts_target_t;

/*
 * Partitions (dma/parts.h). Such a run is always armed. Its programs wait for the ready words of this rank too: copies of a unit
 * begin when all its partitions are ready, and the words of the receivers are written when they have landed. A program does its
 * units in their order. If a unit has to wait in this way behind one that is not ready, for longer than `patience`, or if the
 * run takes longer than `seconds`, the engine takes the programs back. Then `advance` starts what is left, in any order.
 */
typedef struct dma_run_parts {
    const struct dma_parts *parts;
    uint32_t first_epoch;              /* of the first round */
    double patience, seconds;          /* see above */
    const dma_parts_target_t *targets; /* by rank */
} dma_run_parts_t;

/* A stream of the application, and one of ours beside it for copies inside of the device. Runtimes make these by kernels. In one
 * stream, the change from a kernel to a copy by an engine and back takes longer than several small copies. */
typedef struct dma_gpu_app_stream {
    dma_gpu_stream_t *stream, *side;
    /* What `side` waits for in `stream`, and the other way round. `copied` is also behind starts of
     * communicators of one rank, which have no words to say that they have ended. Whoever records it next does so behind these. */
    dma_gpu_event_t *begun, *copied;
} dma_gpu_app_stream_t;

/* What a run in a stream of the application needs besides, in our device's address space: the words that say that a rank has
 * started, of this rank and of its peers; the lines of the peers that copy to this rank; and memory for exchanges, at least two
 * pages for each rank. */
typedef struct dma_gpu_in_stream {
    uint64_t own;
    const uint64_t *peers, *lines;
    size_t npeers, nlines;
    uint64_t temp, temp_bytes; /* 0: the plan has no exchanges */
} dma_gpu_in_stream_t;

/* What an engine can do. The ranks of a communicator exchange their traits. */
typedef struct dma_gpu_traits {
    /* sdma: number of the GPU's node in the kernel's topology; stream: its address on PCI. The same in all containers of the machine;
     * UINT32_MAX: not known */
    uint32_t node;
    uint32_t features; /* bit mask of the constants below */
    uint32_t max_ways; /* queues that may run in parallel */
} dma_gpu_traits_t;

#define DMA_GPU_SWAP_PACKETS 0x1  /* exchanges two blocks in one operation */
#define DMA_GPU_BCST_PACKETS 0x2  /* writes two destinations in one operation */
#define DMA_GPU_PRELAUNCH    0x4  /* accepts programs before their call has started, and can revoke them: `arm` */
#define DMA_GPU_SHAPES       0x8  /* copies between blocks with shapes */
#define DMA_GPU_EPOCH_WORDS  0x10 /* a completion goes to the epoch's word of the line: dma_engine_line_offset */

typedef struct dma_gpu_unit dma_gpu_unit_t;
typedef struct dma_gpu_binding dma_gpu_binding_t;

/* What a rank publishes of its engine for a call: programs are accepted in advance only for calls that may be armed. */
dma_gpu_traits_t dma_gpu_traits_of_call(const dma_gpu_traits_t *traits, bool armed);
/* Sets what a request asks of the engines of all ranks: `traits` by rank. */
void dma_gpu_request_traits(dma_plan_req_t *req, const dma_gpu_traits_t *traits);

/* Parameters of `open`. */
typedef struct dma_gpu_config {
    const dma_gpu_runtime_t *rt;
    int device;
    const char *sysfs;        /* sdma: root of KFD's topology text; NULL: the usual place */
    const char *queues;       /* sdma: name of the queue provider; NULL, "" or "auto": the first that works */
    const char *record;       /* sdma: path of the record (record.h), or "all"; NULL: the usual place */
    double timeout;           /* sdma: seconds after which a queue with work that makes no progress counts as broken */
    const char *own_copy;     /* stream: how the own block is copied (self_copy.h); NULL: auto */
    dma_counters_t *counters; /* of the process; NULL: nobody reads them */
    dma_budget_t *budget;     /* for temporary memory; NULL: without a bound */
    bool stamps;              /* bindings may want them: sdma uses a packet for that */
    char *advice; /* out: if `open` succeeds, what is not used and how to change that, or "" (dma_gpu_advise) */
} dma_gpu_config_t;

/* Parameters of `bind`: the communicator. */
typedef struct dma_gpu_bind_params {
    int rank, nranks;
    const dma_gpu_traits_t *traits; /* by rank */
    uint64_t lines;                 /* our device's address of this rank's queue lines, 64 bytes each */
    uint64_t trigger;               /* likewise of its trigger line; 0: nothing will be armed */
    bool stamps;                    /* `stamps` will be called */
    bool stamp_all;                 /* for every run, whatever that costs */
} dma_gpu_bind_params_t;

/*
 * Arming. The programs of a call that is known in advance are given to the hardware before the call starts. They wait for the
 * trigger of this rank (engine/trigger.h). A rank starts by storing the epoch into its ready word, and the rank that finds
 * that all have started lets the programs of all ranks go. So no CPU is needed between the start of the last rank and the
 * first copy, and a start writes no packets except for the own block.
 *
 * Armed programs have exclusive queues. Nothing is queued behind them except the programs of the next run: once a run whose
 * programs were armed has started, those of the next may be armed, before the first run has ended. A binding with armed
 * programs must be disarmed before the buffers are freed.
 */

/* Whether a rank with this ready word has started the run of `epoch` or a later one. */
static inline bool dma_ready_started(uint32_t word, uint32_t epoch)
{
    return (int32_t)(word - epoch) >= 0;
}

/* When an engine has run a program, by its own clock, which counts 100 MHz or so. */
typedef struct dma_gpu_stamp {
    uint64_t ticks[2]; /* begin and end */
    bool early;        /* the program was given to the engine before the peers had entered (copy_early) */
} dma_gpu_stamp_t;

/* A moment by the clock of an engine. By the host's CLOCK_MONOTONIC it was between two times, in nanoseconds. */
typedef struct dma_gpu_moment {
    uint64_t ticks;
    uint64_t earliest, latest;
} dma_gpu_moment_t;

typedef struct dma_gpu_engine {
    const char *name; /* value of coll_dma_engine: at most 15 characters */

    /* On failure `why`, of DMA_GPU_WHY_BYTES, says why this engine does not work here. On success it says how the engine
     * works, or is empty. */
    dma_status_t (*open)(const dma_gpu_config_t *config, dma_gpu_unit_t **unit, char *why);
    void (*close)(dma_gpu_unit_t *unit);
    void (*traits)(const dma_gpu_unit_t *unit, dma_gpu_traits_t *traits);

    dma_status_t (*bind)(dma_gpu_unit_t *unit, const dma_gpu_bind_params_t *params, dma_gpu_binding_t **binding,
                         char *why);
    /* Waits for a bounded time until all work that was started has ended. Returns false if some may still be in progress.
     * Then all memory that the device can access must stay valid and mapped until the process ends. */
    bool (*unbind)(dma_gpu_binding_t *binding);

    /*
     * Both [may be NULL]. copy_early may begin the copy of the next run's own block from the send to the receive buffer,
     * before the peers have entered. This copy concerns only this rank, so its launch overlaps with the wait for the
     * peers. It is a hint: the engine copies the block, or leaves it to `start`, whose plan contains the same copy. If no
     * start follows, call wait_early, which returns when no such copy is in progress.
     */
    void (*copy_early)(dma_gpu_binding_t *binding, uint64_t dst, uint64_t src, uint64_t bytes);
    void (*wait_early)(dma_gpu_binding_t *binding);

    /* DMA_AGAIN: not all programs were given to the hardware yet; call again with the same run until DMA_OK. An error
     * fails the communicator, and the binding gets no further run. Of a run that is armed, the programs that `arm` has left
     * out are given to the hardware: those that concern this rank alone. */
    dma_status_t (*start)(dma_run_t *run);
    /* [may be NULL] Submits a run to a stream of the application on this device, before the peers have started: the stream stores
     * the epoch to the own word, waits until those of the peers have reached it, does what `start` does, and waits for the lines of
     * the peers. Several such runs may be in progress. Never waits itself. DMA_UNSUPPORTED: nothing was submitted, and the run can be
     * started. Any other error fails the communicator. */
    dma_status_t (*enqueue)(const dma_run_t *run, const dma_gpu_app_stream_t *app,
                            const dma_gpu_in_stream_t *in_stream);
    /* [NULL without `enqueue`] Have the copies to the peers of all runs in streams ended? Nobody knows of a run that could be submitted
     * only in part, and it does not count. */
    bool (*enqueued_ended)(dma_gpu_binding_t *binding);
    /* [may be NULL] Work of the CPU while a started run is in progress, also of an armed one. Never waits. */
    dma_status_t (*advance)(dma_run_t *run);
    /* [may be NULL] The last run has ended: all lines of this rank have been seen. */
    void (*end)(dma_gpu_binding_t *binding);
    /* [may be NULL: no] Do the lines of a started run depend on `advance`? */
    bool (*needs_cpu)(const dma_run_t *run);
    /* Both are NULL without DMA_GPU_PRELAUNCH. `arm` gives the programs of `run` to the hardware, for the run's epoch;
     * *bytes: what they will write. It waits for nothing.
     * DMA_UNSUPPORTED: these programs cannot be armed, or not now; start them at their call. `disarm` revokes the armed
     * programs that have not been let go, and waits, for a bounded time, until the hardware has skipped them. If these are of
     * a run that has been started, the run never ends. */
    dma_status_t (*arm)(const dma_run_t *run, uint64_t *bytes);
    void (*disarm)(dma_gpu_binding_t *binding);
    /* [may be NULL] When a program of the last run, which has ended, has begun and ended by the engine's clock. False: the
     * engine does not know, or has said it with another program; it does so only if `bind` was told to. */
    bool (*stamps)(dma_gpu_binding_t *binding, uint32_t program, dma_gpu_stamp_t *stamp);
    /* [may be NULL] Finds such a moment; it waits for a bounded time. The closer its two times are, the better the two clocks
     * are related. False: the engine cannot, or not now. */
    bool (*moment)(dma_gpu_binding_t *binding, dma_gpu_moment_t *moment);
    /* DMA_OK, or an error if the hardware has failed under the runs of this binding. Then *reason says how; it is valid
     * until this thread's next call of the engine. */
    dma_status_t (*check)(dma_gpu_binding_t *binding, const char **reason);
} dma_gpu_engine_t;

/* All engines, the best first. Ends with NULL. */
extern const dma_gpu_engine_t *const dma_gpu_engines[];

#endif
