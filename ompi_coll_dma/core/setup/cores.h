/* How many ranks share a core: what each rank publishes in the set-up, and what follows from all of it. */
#ifndef DMA_CORE_SETUP_CORES_H
#define DMA_CORE_SETUP_CORES_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>

#include "dma/params.h"

#define DMA_WHOLE_CORE 16 /* ranks per core are counted in sixteenths */

typedef struct dma_cores {
    uint64_t cpus[CPU_SETSIZE / 64]; /* that the rank may use */
    uint32_t local_procs, online;    /* processes and CPUs of the node */
} dma_cores_t;

void dma_cores_count(dma_cores_t *cores, const dma_params_t *params);
/* Ranks per core, in sixteenths: the larger of these ranks per core that they may use, and the processes per core of the
 * node. `cores` of the first rank; those of the next one begin `stride` bytes behind it. */
uint32_t dma_cores_ranks_per_core(const dma_cores_t *cores, size_t stride, int nranks);

#endif
