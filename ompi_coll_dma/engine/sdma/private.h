/* Internal types and functions of the sdma engine: units, bindings and armed programs. */
#ifndef DMA_SDMA_PRIVATE_H
#define DMA_SDMA_PRIVATE_H

#include "dma/clock.h"
#include "engine/sdma/queues/fault.h"
#include "engine/sdma/run/lower.h"
#include "engine/sdma/sdma.h"
#include "node/window.h"

/* The types behind the handles of engine/gpu.h. */
typedef struct dma_sdma_unit {
    const dma_gpu_runtime_t *rt;
    int device;
    double stuck_seconds;
    dma_counters_t *counters; /* may be NULL */
    dma_budget_t *budget;     /* likewise */
    dma_gpu_pci_t pci;
    dma_topo_t *topo;
    const dma_topo_gpu_t *gpu;
    const dma_gen_t *gen; /* `limited` */
    dma_gen_t limited;    /* the generation, with those packets alone that may be used */
    dma_queues_t queues;
    dma_fault_t fault;
    _Atomic bool off;              /* it has failed: it binds to no further communicator */
    pthread_mutex_t bindings_lock; /* guards the list; nothing is called with it */
    struct dma_sdma_binding *bindings;
    pthread_mutex_t draft_lock; /* guards the memory in which arm.c builds packets; NULL: nothing was armed yet */
    uint32_t *draft;
} dma_sdma_unit_t;

/* Programs with partitions: what the engine writes for one of them, in a line of its own. */
typedef struct dma_sdma_parts_line {
    _Alignas(64) _Atomic uint32_t done; /* units whose copies have landed: dma_sdma_parts_tag */
    _Atomic uint32_t ended;             /* epoch: of the armed program nothing is left */
} dma_sdma_parts_line_t;

/* What the CPU has started of a program that was taken back. */
typedef struct dma_sdma_parts_program {
    bool known;     /* what the engine had done when it was taken back is in `sent` */
    uint64_t sent;  /* bit mask of units */
    int unit;       /* the one that is being lowered; -1: none */
    dma_lower_t at; /* in it */
    uint32_t begun; /* units that the CPU has started */
    bool finished;  /* its line is written, or will be */
} dma_sdma_parts_program_t;

typedef struct dma_sdma_parts {
    dma_sdma_parts_line_t *lines; /* by program; the device's address of the first: */
    uint64_t lines_addr;
    _Atomic(_Atomic uint32_t *) ready; /* of the bank of the run that is armed; NULL: none was */
    uint32_t sparts;
    uint32_t epoch;                /* of the run that `advance` looks at */
    double started_at, blocked_at; /* of this run; 0: it is not blocked */
    bool taken;                    /* it was taken back */
    dma_sdma_parts_program_t programs[];
} dma_sdma_parts_t;

typedef struct dma_sdma_binding {
    dma_sdma_unit_t *unit;
    int rank, nranks;
    uint64_t lines;
    dma_queue_t **queues; /* by rank: the queue of the link to the rank; for this rank: of the own block */
    dma_map_pick_t *picks;
    uint32_t *nodes;
    dma_lower_t *at;      /* by program: how far it is lowered */
    dma_shaped_t *shaped; /* by program */
    const dma_run_t *run; /* the run that is being lowered; NULL: none */
    /* Of the last run, for watch.c, which reads them in any thread: they are stored in reverse order. */
    _Atomic uint32_t epoch;
    _Atomic uint32_t progs; /* its queue programs are 1 to progs - 1; 0: there was no run */
    const struct dma_window *_Atomic window;
    _Atomic uint32_t
        ended; /* the last epoch of which all lines were seen. A fence that comes twice may hide them later */

    uint64_t trigger;           /* the device's address of our trigger line; 0: arming is disabled */
    dma_queue_t **armed_queues; /* by program: the exclusive queue on which it is armed, or NULL */
    uint64_t armed_packets;     /* behind the packets that wait, of all armed programs of a run */
    _Atomic uint64_t
        armed[2];             /* by epoch % 2: the last epoch that was armed and not revoked: dma_sdma_known; 0: none */
    _Atomic uint64_t revoked; /* the epoch of a run that had started and was revoked: dma_sdma_known; 0: none */
    _Atomic uint32_t own_prog; /* of armed runs: the program of the own block, which is not armed; 0: none */
    bool in_exit_list;         /* the exit handler knows this binding */
    dma_sdma_parts_t *parts;   /* of runs with partitions; NULL: there was none */
    dma_stamps_t *stamps;      /* by program; NULL: none */
    uint64_t stamps_addr;      /* on the device */
    bool stalled;              /* at the last disarm, a queue had not skipped the revoked programs in time */
    bool left;                 /* arming was given up, and a queue that seemed to have work was left */
    struct dma_sdma_binding *next_armed;

    struct dma_sdma_binding *next; /* of the unit */
    uint64_t watched;              /* where the run of watched_epoch was when it last moved, */
    uint32_t watched_epoch;
    double watched_at; /* and when that was seen; 0: no run is watched */
} dma_sdma_binding_t;

/* An epoch where 0 says that there is none: after 2^32 starts, 0 is an epoch. */
static inline uint64_t dma_sdma_known(uint32_t epoch)
{
    return UINT64_C(1) << 32 | epoch;
}

/* Of our programs, for the run of this epoch. */
static inline _Atomic uint32_t *dma_sdma_trigger(const dma_sdma_binding_t *b, uint32_t epoch)
{
    return dma_window_trigger(b->window, b->rank, epoch);
}

static inline dma_sdma_binding_t *dma_sdma_binding(dma_gpu_binding_t *handle)
{
    return (dma_sdma_binding_t *)handle;
}

/* binding.c: the parameters to lower a program to a queue. */
dma_lower_target_t dma_sdma_lower_target(const dma_sdma_binding_t *b, dma_queue_t *queue, uint32_t prog,
                                         uint32_t epoch);
/* Is a program of a run armed? And does the run wait for its trigger, or has it been revoked? */
bool dma_sdma_is_armed(const dma_sdma_binding_t *b, uint32_t epoch, uint32_t prog);
bool dma_sdma_run_waits(const dma_sdma_binding_t *b, uint32_t epoch);
/* Has a program of the last run come to its end? Have all? And: it has, says the caller. */
bool dma_sdma_has_reached(const dma_sdma_binding_t *b, uint32_t prog);
bool dma_sdma_is_quiet(const dma_sdma_binding_t *b);
void dma_sdma_end(dma_gpu_binding_t *handle);
/* The unit binds to no further communicator. */
void dma_sdma_switch_off(dma_sdma_unit_t *unit);
/* How the GPU has failed, or NULL. Whoever asks returns an error to the application. */
const char *dma_sdma_failure(dma_sdma_unit_t *unit);

/* locate.c: sets pci, topo, gpu and gen of a unit. Finds the GPU by its PCI address, because the order of devices differs between
 * processes. */
dma_status_t dma_sdma_locate(const dma_gpu_config_t *config, dma_sdma_unit_t *unit, char *why);
/* Of a unit that is located: the GPU for providers of queues, and what the ranks of a communicator exchange. `proof` may be NULL:
 * nothing is known. */
struct dma_proof;
dma_provider_gpu_t dma_sdma_provider_gpu(const dma_sdma_unit_t *unit, const struct dma_proof *proof);
dma_gpu_traits_t dma_sdma_traits(const dma_sdma_unit_t *unit);
/* temp.c: `get` allocates the temporary memory of a queue, with its lock held, or of a program. */
dma_status_t dma_sdma_temp_get(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t *temp);
void dma_sdma_temp_free(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t temp);
/* The times of a trace. Without memory or packet for them there are none. `quiet`: no engine writes to them any more. */
void dma_sdma_stamps_make(dma_sdma_binding_t *b, bool wanted);
void dma_sdma_stamps_free(dma_sdma_binding_t *b, bool quiet);
bool dma_sdma_stamps(dma_gpu_binding_t *handle, uint32_t program, dma_gpu_stamp_t *stamp);

/* arm.c */
dma_status_t dma_sdma_arm(const dma_run_t *run, uint64_t *bytes);
void dma_sdma_disarm(dma_gpu_binding_t *handle);
/* Destroys the armed queues, except those that still wait, and all if not all is `quiet`: a queue that has fetched everything
 * may still copy. Returns false if one is left. */
bool dma_sdma_arm_release(dma_sdma_binding_t *b, bool quiet);

/* partitions.c: what runs with partitions need beside the other steps of arm.c. `build` lowers all programs into the armed queues,
 * with room for two bodies at `body`; false: they do not fit. `ready`: all partitions of the run are. `release` lets no engine wait
 * for a partition any more: only stores; `restore` makes words not ready again. */
#define DMA_SDMA_BODY_DWORDS 8192 /* of an armed program: half of what one COND covers, and an eighth of a ring */
/* Clocks between two reads of the trigger; longer than in a drain, because the wait is long. */
#define DMA_SDMA_START_INTERVAL 16
bool dma_sdma_parts_prepare(dma_sdma_binding_t *b, const dma_run_t *run);
bool dma_sdma_parts_build(dma_sdma_binding_t *b, const dma_run_t *run, uint64_t *bytes, uint32_t *body);
bool dma_sdma_parts_ready(const dma_sdma_binding_t *b);
void dma_sdma_parts_release(const dma_sdma_binding_t *b);
void dma_sdma_parts_restore(const dma_sdma_binding_t *b);
void dma_sdma_parts_free(dma_sdma_binding_t *b, bool quiet);
/* Of one program: its queue; whether a unit is ready; how many units its `done` word says, of an epoch. `put` lowers unit u from
 * `at` on, behind those in `sent`, with the words of what has come then, and `done` of so many units. DMA_AGAIN: no room. */
struct dma_parts_unit;
dma_queue_t *dma_sdma_parts_queue(const dma_sdma_binding_t *b, uint32_t program);
bool dma_sdma_parts_unit_ready(const dma_sdma_binding_t *b, const struct dma_parts_unit *unit);
uint32_t dma_sdma_parts_units(uint32_t done, uint32_t epoch);
dma_status_t dma_sdma_parts_put(const dma_sdma_binding_t *b, const dma_run_t *run, uint32_t program, uint32_t u,
                                uint64_t sent, uint32_t done, dma_queue_t *queue, dma_lower_t *at);
/* parts_rest.c: waits for a bounded time until a run that has failed is out of the engines. */
void dma_sdma_parts_settle(dma_sdma_binding_t *b, double until);
/* dma_gpu_engine_t.advance */
dma_status_t dma_sdma_advance(dma_run_t *run);

/* watch.c: whether a fault at this address may be ours; dma_gpu_engine_t.check. Each binding is in the list of its unit. */
bool dma_sdma_busy(void *unit, uint64_t address);
dma_status_t dma_sdma_check(dma_gpu_binding_t *handle, const char **reason);
void dma_sdma_watch_begin(dma_sdma_binding_t *b);
void dma_sdma_watch_end(dma_sdma_binding_t *b);

/* engine.c: a unit that has queues and may use all packets of its generation; `why` as in dma_gpu_engine_t.open. */
dma_status_t dma_sdma_unit_open(const dma_gpu_config_t *config, dma_sdma_unit_t **unit, char *why);
void dma_sdma_unit_close(dma_sdma_unit_t *unit);

#endif
