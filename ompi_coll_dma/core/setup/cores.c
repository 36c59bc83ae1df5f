/* Ranks per core: see cores.h. */
#include "core/setup/cores.h"

#include <unistd.h>

#define MOST_PER_CORE (64 * DMA_WHOLE_CORE)

void dma_cores_count(dma_cores_t *cores, const dma_params_t *params)
{
    cpu_set_t set;

    *cores = (dma_cores_t){.local_procs = params->local_procs, .online = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN)};
    if (sched_getaffinity(0, sizeof(set), &set)) {
        return;
    }
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &set)) {
            cores->cpus[i / 64] |= UINT64_C(1) << (i % 64);
        }
    }
}

static const dma_cores_t *cores_of(const dma_cores_t *first, size_t stride, int rank)
{
    return (const dma_cores_t *)((const char *)first + (size_t)rank * stride);
}

/* The CPUs that any rank may use; 0 on a machine with more of them than a cpu_set_t has. */
static uint32_t count_usable(const dma_cores_t *cores, size_t stride, int nranks)
{
    uint32_t usable = 0;

    for (unsigned i = 0; i < CPU_SETSIZE / 64; i++) {
        uint64_t any = 0;

        for (int r = 0; r < nranks; r++) {
            any |= cores_of(cores, stride, r)->cpus[i];
        }
        usable += (uint32_t)__builtin_popcountll(any);
    }
    return usable;
}

uint32_t dma_cores_ranks_per_core(const dma_cores_t *cores, size_t stride, int nranks)
{
    uint32_t usable = count_usable(cores, stride, nranks), procs = 0, online = UINT32_MAX, own, node;

    for (int r = 0; r < nranks; r++) {
        const dma_cores_t *c = cores_of(cores, stride, r);

        procs = c->local_procs > procs ? c->local_procs : procs;
        online = c->online < online ? c->online : online;
    }
    own = DMA_WHOLE_CORE * (uint32_t)nranks / (usable ? usable : online);
    node = DMA_WHOLE_CORE * procs / (online ? online : 1);
    own = own > node ? own : node;
    return own < DMA_WHOLE_CORE ? DMA_WHOLE_CORE : own > MOST_PER_CORE ? MOST_PER_CORE : own;
}
