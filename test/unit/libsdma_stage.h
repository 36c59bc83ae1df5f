/*
 * Engines that are bound to a communicator, with one rank of it: rank 0 of three, each with a GPU of an MI300X
 * machine. The packets of rank 0 are executed (libkfd_fake.h). The other two ranks do not exist: the test lets armed programs
 * go in their place, and their receive buffers are memory of this process.
 */
#ifndef DMA_TEST_LIBSDMA_STAGE_H
#define DMA_TEST_LIBSDMA_STAGE_H

#include "engine/sdma/private.h"
#include "libgpu_fake.h"
#include "libkfd_fake.h"
#include "node/window.h"

#define STAGE_RANKS 3
#define STAGE_BYTES 4096 /* of a block */

/* What a test begins with. */
typedef struct stage {
    char *root;
    dma_topo_t *machine;
    dma_gpu_runtime_t *rt;
    dma_counters_t counters; /* of the unit */
    dma_gpu_unit_t *unit;
    dma_gpu_binding_t *binding; /* NULL: it was unbound */
    dma_gpu_traits_t traits[STAGE_RANKS];
    dma_window_t window;
    dma_peer_t peers[STAGE_RANKS];
    char *block; /* ours */
    size_t block_bytes;
    char *send, *recv[STAGE_RANKS];
    dma_target_t targets[STAGE_RANKS];
    dma_plan_t *plan;
    dma_run_t run;
} stage_t;

void stage_begin(stage_t *s, fake_options_t options);
void stage_end(stage_t *s);
/* Another communicator of the same ranks, on the unit of `first`. It must end before `first` ends. */
void stage_begin_beside(stage_t *s, const stage_t *first);
void stage_end_beside(stage_t *s);

/* Zeroed memory in whole pages that the engines can use. The caller frees it when no engine uses it. */
char *stage_memory(size_t bytes);
void stage_plan(stage_t *s, const char *variant, dma_coll_t coll, bool in_place);
void stage_bind(stage_t *s);

void stage_release(stage_t *s); /* all ranks have started the run */
static inline _Atomic uint32_t *stage_trigger(const stage_t *s)
{
    return dma_window_trigger(&s->window, 0, s->run.epoch);
}
/* The epoch up to which the program with that number has ended. */
uint32_t stage_line(const stage_t *s, int queue);
/* How often the unit has counted a reason. */
uint64_t stage_reasons(stage_t *s, dma_reason_t reason);
/* Are all lines of the run written? */
void stage_wait(const stage_t *s);

#endif
