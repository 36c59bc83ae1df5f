/* The insides of the sdma engine, shared by its files: units, what a communicator has of them, and armed programs. */
#ifndef DMA_SDMA_PRIVATE_H
#define DMA_SDMA_PRIVATE_H

#include "dma/clock.h"
#include "engine/sdma/lower.h"
#include "engine/sdma/sdma.h"

/* The types stalled the handles of engine/gpu.h. */
typedef struct dma_sdma_unit {
    const dma_gpu_runtime_t *rt;
    int device;
    double stuck_seconds;
    unsigned resets; /* of the device, when the unit was opened */
    dma_gpu_pci_t pci;
    dma_topo_t *topo;
    const dma_topo_gpu_t *gpu;
    const dma_gen_t *gen;
    uint32_t features; /* that the self-test has found to work */
    dma_queues_t queues;
} dma_sdma_unit_t;

/* What dma_run_t calls the engine bound to a communicator. */
typedef struct dma_sdma_binding {
    dma_sdma_unit_t *unit;
    int rank, nranks;
    uint64_t lines;
    dma_queue_t **queues; /* by rank whose link it is; ours: for the own block */
    dma_map_pick_t *picks;
    uint32_t *nodes;
    dma_lower_t *at;      /* of the run's programs */
    dma_shaped_t *shaped; /* likewise */
    const dma_run_t *run; /* that is being put in; NULL: none */
    uint32_t epoch;       /* of the last run */
    uint32_t progs;       /* of it */
    const struct dma_window *window;

    uint64_t *ready;            /* by rank; NULL: nothing is armed here */
    dma_queue_t **armed_queues; /* by program: the queue that it is armed on; NULL: none */
    uint32_t armed;             /* the epoch that is or was armed last; 0: none */
    bool in_exit_list;          /* for the exit handler */
    bool stalled;               /* some of those queues had not got past what was given up, the last time */
    struct dma_sdma_binding *next_armed;
} dma_sdma_binding_t;

static inline dma_sdma_binding_t *dma_sdma_binding(dma_gpu_binding_t *handle)
{
    return (dma_sdma_binding_t *)handle;
}

/* engine.c: what a program is lowered to on a queue. */
dma_lower_target_t dma_sdma_lower_target(const dma_sdma_binding_t *b, dma_queue_t *queue, uint32_t prog);

/* arm.c */
dma_status_t dma_sdma_arm(const dma_run_t *run);
void dma_sdma_disarm(dma_gpu_binding_t *handle, _Atomic uint32_t *ready);
/* false: some queue still waits, and is left. */
bool dma_sdma_arm_release(dma_sdma_binding_t *b);
/* DMA_OK, or what has gone wrong with the queues of armed programs. */
dma_status_t dma_sdma_arm_check(dma_sdma_binding_t *b);

/* selftest.c: which of the packets that not every machine is proven to have do what they should. A bit mask of
 * DMA_GPU_*; 0 also when the queue does not move at all, then *works is false. */
uint32_t dma_sdma_selftest(dma_sdma_unit_t *unit, bool *works);

#endif
