/* Internal types and functions of the sdma engine: units, bindings and armed programs. */
#ifndef DMA_SDMA_PRIVATE_H
#define DMA_SDMA_PRIVATE_H

#include "dma/clock.h"
#include "engine/sdma/fault.h"
#include "engine/sdma/lower.h"
#include "engine/sdma/sdma.h"

/* The types behind the handles of engine/gpu.h. */
typedef struct dma_sdma_unit {
    const dma_gpu_runtime_t *rt;
    int device;
    double stuck_seconds;
    dma_counters_t *counters; /* may be NULL */
    dma_budget_t *budget;     /* likewise */
    unsigned resets;          /* dma_gpu_runtime_t.resets when the unit was opened */
    dma_gpu_pci_t pci;
    dma_topo_t *topo;
    const dma_topo_gpu_t *gpu;
    const dma_gen_t *gen; /* `limited` */
    dma_gen_t limited;    /* the generation, with those packets alone that may be used */
    dma_queues_t queues;
    dma_fault_t fault;
} dma_sdma_unit_t;

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
    uint32_t epoch;       /* of the last run */
    uint32_t progs;       /* of the last run: its queue programs are 1 to progs - 1 */
    const struct dma_window *window;

    uint64_t *ready;            /* the device's addresses of the ready words, by rank; NULL: arming is disabled */
    dma_queue_t **armed_queues; /* by program: the exclusive queue on which it is armed, or NULL */
    uint64_t armed_packets;     /* behind the packets that wait, of all armed programs */
    uint32_t armed;             /* the last epoch that was armed; 0: none */
    bool in_exit_list;          /* the exit handler knows this binding */
    dma_stamps_t *stamps;       /* by program; NULL: none */
    uint64_t stamps_addr;       /* on the device */
    bool stalled;               /* at the last disarm, a queue had not skipped the revoked programs in time */
    struct dma_sdma_binding *next_armed;
} dma_sdma_binding_t;

static inline dma_sdma_binding_t *dma_sdma_binding(dma_gpu_binding_t *handle)
{
    return (dma_sdma_binding_t *)handle;
}

/* engine.c: the parameters to lower a program to a queue. */
dma_lower_target_t dma_sdma_lower_target(const dma_sdma_binding_t *b, dma_queue_t *queue, uint32_t prog);

/* locate.c: sets pci, topo, gpu and gen of a unit. Finds the GPU by its PCI address, because the order of devices differs between
 * processes. */
dma_status_t dma_sdma_locate(const dma_gpu_config_t *config, dma_sdma_unit_t *unit, char *why);
/* temp.c: after a reset the queues still exist, but the temporary memory does not. `get` allocates that of a queue, with its
 * lock held, or of a program. */
bool dma_sdma_was_reset(const dma_sdma_unit_t *unit);
dma_status_t dma_sdma_temp_get(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t *temp);
void dma_sdma_temp_free(dma_sdma_unit_t *unit, uint64_t bytes, uint64_t temp);
/* The times of a trace. Without memory or packet for them there are none. `quiet`: no engine writes to them any more. */
void dma_sdma_stamps_make(dma_sdma_binding_t *b, bool wanted);
void dma_sdma_stamps_free(dma_sdma_binding_t *b, bool quiet);
bool dma_sdma_stamps(dma_gpu_binding_t *handle, uint32_t program, uint64_t ticks[2]);

/* arm.c */
dma_status_t dma_sdma_arm(const dma_run_t *run, uint64_t *bytes);
void dma_sdma_disarm(dma_gpu_binding_t *handle, _Atomic uint32_t *ready);
/* Destroys the armed queues. Returns false if a queue still waits; it is left. */
bool dma_sdma_arm_release(dma_sdma_binding_t *b);
/* DMA_OK, or an error of a queue with armed programs. */
dma_status_t dma_sdma_arm_check(dma_sdma_binding_t *b);

/* engine.c: a unit that has queues and may use all packets of its generation; `why` as in dma_gpu_engine_t.open. */
dma_status_t dma_sdma_unit_open(const dma_gpu_config_t *config, dma_sdma_unit_t **unit, char *why);
void dma_sdma_unit_close(dma_sdma_unit_t *unit);

/* selftest.c: tries the packets that the unit may use, and takes away from `limited` those that do not work. Returns
 * false if the queue does not run at all. */
bool dma_sdma_selftest(dma_sdma_unit_t *unit, char *advice);

#endif
