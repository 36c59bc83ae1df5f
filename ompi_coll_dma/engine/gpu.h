/*
 * Engines of GPUs: what runs the queue programs of a GPU plan (dma/plan.h).
 *
 *     unit     an engine on one device of this process: queues, rings, streams
 *     bound    a unit in the service of one communicator: which queue leads to which rank, where its words are
 *
 * A communicator gives a bound engine one run at a time. `start` gives the queue programs to the hardware; all peers have
 * entered by then, so the programs' waits for entries are over. An engine ends each program by writing run->epoch to the
 * program's line (dma_window_queue), after everything the program has copied is visible to all; whoever waits for the
 * program looks there. So the engine itself is never asked whether a run is done, and `check` is for evidence of faults.
 *
 * Copies of one program may overlap and finish in any order. Programs are independent: none waits for another one, so
 * an engine may run them one after the other, on fewer queues than there are programs, or as one batch.
 *
 * An engine lowers what its hardware does not have: a COPY2 whose two places do not suit it to two copies, a SWAP to
 * copies through memory of its own. Lengths and addresses are any; operations of no bytes are nothing.
 *
 * Blocks of a send buffer, and of each receive buffer, may have a shape (gpu/shape.h): only where all engines that have to
 * do with them say DMA_GPU_SHAPES, and never in a plan that exchanges.
 */
#ifndef DMA_GPU_ENGINE_H
#define DMA_GPU_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "dma/engine.h"
#include "gpu/runtime.h"
#include "gpu/shape.h"

#define DMA_GPU_WHY_BYTES 128 /* of a reason in words */

/* Where the receive buffer of a rank is, in the address space of our device. */
typedef struct dma_target {
    uint64_t addr;
    uint64_t bytes;           /* of every block, unless displs is set */
    const int64_t *displs;    /* of the blocks; NULL: block b is at b * bytes */
    const dma_shape_t *shape; /* of the blocks; NULL: their bytes are side by side */
} dma_target_t;

static inline uint64_t dma_target_addr(const dma_target_t *t, uint64_t block)
{
    return t->addr + (uint64_t)(t->displs ? t->displs[block] : (int64_t)(block * t->bytes));
}

/* What the ranks know of each other's engines. */
typedef struct dma_gpu_traits {
    uint32_t node;     /* the kernel's number of the GPU, of all of the machine; UINT32_MAX: not known */
    uint32_t features; /* DMA_GPU_SWAP_PACKETS, ... */
    uint32_t max_ways; /* queues beside each other */
} dma_gpu_traits_t;

#define DMA_GPU_SWAP_PACKETS 0x1 /* exchanges two places in one operation */
#define DMA_GPU_BCST_PACKETS 0x2 /* writes two places in one operation */
#define DMA_GPU_PRELAUNCH    0x4 /* takes programs before their call has started, and gives them back */
#define DMA_GPU_SHAPES       0x8 /* copies between blocks whose bytes are not side by side */

typedef struct dma_gpu_unit dma_gpu_unit_t;
typedef struct dma_gpu_binding dma_gpu_binding_t;

/* What an engine is told about itself. */
typedef struct dma_gpu_config {
    const dma_gpu_runtime_t *rt;
    int device;
    const char *sysfs;    /* root of the kernel's topology text, or NULL: where it usually is */
    const char *queues;   /* of sdma: whom queues come from; NULL, "" or "auto": the best that works */
    double timeout;       /* seconds after which a queue that has work and does not move is taken for broken */
    const char *own_copy; /* how a block is copied inside the device: the stream engine's own.h; NULL: auto */
} dma_gpu_config_t;

/* What an engine is told about a communicator. */
typedef struct dma_gpu_bind_params {
    int rank, nranks;
    const dma_gpu_traits_t *traits; /* by rank */
    uint64_t lines;                 /* our queue lines, as our device sees them: 64 bytes each */
    const uint64_t *ready;          /* by rank: its ready word, as our device sees it; NULL: nothing will be armed */
} dma_gpu_bind_params_t;

/*
 * Arming. The programs of a call that is known beforehand are given to the hardware before it starts. They wait for our
 * own ready word, and then each for those of the peers that it writes to:
 *
 *     2 * epoch        this rank's buffers are ready for the run with that epoch: start
 *     2 * epoch + 1    give the programs of that epoch up: they do nothing, and write no line
 *
 * so starting is one store, and no processor is needed between the last rank's start and the first copy. Armed programs
 * have queues of their own: nobody's work is behind them. Whoever arms calls `disarm` before the buffers go.
 */
static inline uint32_t dma_ready_start(uint32_t epoch)
{
    return 2 * epoch;
}

/* Has a rank whose ready word is this started the run? (Or a later one, but not given it up.) */
static inline bool dma_ready_started(uint32_t word, uint32_t epoch)
{
    return word == dma_ready_start(epoch) || (int32_t)(word - dma_ready_start(epoch)) >= 2;
}

typedef struct dma_gpu_engine {
    const char *name;

    /* On failure `why`, of DMA_GPU_WHY_BYTES, says in words why this engine does not work here; on success how it works,
     * if there is anything to tell. */
    dma_status_t (*open)(const dma_gpu_config_t *config, dma_gpu_unit_t **unit, char *why);
    void (*close)(dma_gpu_unit_t *unit);
    void (*traits)(const dma_gpu_unit_t *unit, dma_gpu_traits_t *traits);

    dma_status_t (*bind)(dma_gpu_unit_t *unit, const dma_gpu_bind_params_t *job, dma_gpu_binding_t **binding,
                         char *why);
    /* Waits, for a bounded time, until nothing that the communicator has started moves any more. false: something may. Then
     * what the device has been shown must stay where it is to the end of the process. */
    bool (*unbind)(dma_gpu_binding_t *binding);

    /*
     * Both NULL, or: the next run's own block, out of place, before the peers have entered. It concerns this rank alone, so
     * what it costs to start goes by while peers are waited for. A hint: the engine copies it, or leaves it to `start`, in
     * which the plan has the same block. Where no start follows, `settle` returns when nothing of it is under way.
     */
    void (*copy_early)(dma_gpu_binding_t *binding, uint64_t dst, uint64_t src, uint64_t bytes);
    void (*wait_early)(dma_gpu_binding_t *binding);

    /* DMA_AGAIN: some of it could not be given to the hardware yet; call again, with the same run, until DMA_OK. */
    dma_status_t (*start)(dma_run_t *run);
    /* NULL, or what an engine has to do from the host while a started run is on; never waits. */
    dma_status_t (*advance)(dma_run_t *run);
    /* Both NULL: without DMA_GPU_PRELAUNCH. `arm`: the programs of `run`, for its epoch; DMA_UNSUPPORTED: not these, or not
     * now, start them when the time has come. `disarm`: waits, for a bounded time, until the hardware has given up what is
     * armed; `ready` is our ready word. */
    dma_status_t (*arm)(const dma_run_t *run);
    void (*disarm)(dma_gpu_binding_t *binding, _Atomic uint32_t *ready);
    /* DMA_OK, or what has gone wrong with the hardware under this communicator's runs. */
    dma_status_t (*check)(dma_gpu_binding_t *binding);
} dma_gpu_engine_t;

/* All there are, the best first; ended by NULL. */
extern const dma_gpu_engine_t *const dma_gpu_engines[];

#endif
