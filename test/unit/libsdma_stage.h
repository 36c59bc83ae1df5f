/*
 * A stage for engines that are bound to a communicator: rank 0 of three, each on a GPU of an MI300X machine, its packets
 * executed (libthunk.h), without the other two ranks. Their receive buffers are here; the test lets armed programs go.
 */
#ifndef DMA_TEST_LIBSDMA_STAGE_H
#define DMA_TEST_LIBSDMA_STAGE_H

#include "engine/sdma/private.h"
#include "libgpu_fake.h"
#include "libthunk.h"
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
    dma_gpu_binding_t *binding; /* NULL: has been unbound */
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

void stage_begin(stage_t *s, thunk_options_t options);
void stage_end(stage_t *s);
/* Another communicator of the same ranks on the unit of `first`; its end comes before that one's. */
void stage_begin_beside(stage_t *s, const stage_t *first);
void stage_end_beside(stage_t *s);

/* Zeroed, for the engines to use, in whole pages; the caller frees it when no engine does. */
char *stage_memory(size_t bytes);
void stage_plan(stage_t *s, const char *variant, dma_coll_t coll, bool in_place);
void stage_bind(stage_t *s);

/* All ranks have started the run; and our trigger. */
void stage_release(stage_t *s);
static inline _Atomic uint32_t *stage_trigger(const stage_t *s)
{
    return dma_window_trigger(&s->window, 0, s->run.epoch);
}
/* Of the program with that number: the epoch that it has come to the end of. */
uint32_t stage_line(const stage_t *s, int queue);
/* How often the unit has counted a reason. */
uint64_t stage_reasons(stage_t *s, dma_reason_t reason);
/* All lines of the run are written. */
void stage_wait(const stage_t *s);

#endif
