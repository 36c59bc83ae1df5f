/* The ROCr above the thunk of libthunk.h: its GPU agents. Their order and numbers are not those of the kernel. */
#include "engine/sdma/rocr.h"

#include <stddef.h>

#include "libthunk.h"

static const dma_topo_t *machine; /* NULL: one GPU, whose address is 0 */

static uint32_t count(void)
{
    return machine ? machine->ngpus : 1;
}

void thunk_rocr_begin(const dma_topo_t *topo)
{
    machine = topo;
}

bool thunk_rocr_has(uint32_t node)
{
    return node >= THUNK_FIRST_NODE && node - THUNK_FIRST_NODE < count();
}

/* The handle of GPU i is i + 1. */
static uint32_t iterate_agents(dma_rocr_each_t *each, void *data)
{
    for (uint32_t i = count(); i > 0; i--) {
        each((dma_rocr_handle_t){i}, data);
    }
    return DMA_ROCR_SUCCESS;
}

static uint32_t agent_info(dma_rocr_handle_t agent, uint32_t what, void *value)
{
    const dma_topo_gpu_t *gpu = machine ? &machine->gpus[agent.handle - 1] : NULL;

    switch (what) {
    case DMA_ROCR_AGENT_DEVICE:
        *(uint32_t *)value = DMA_ROCR_DEVICE_GPU;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_LOCATION:
        *(uint32_t *)value = gpu ? gpu->partition << 28 | gpu->location : 0;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_DOMAIN:
        *(uint32_t *)value = gpu ? gpu->domain : 0;
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_AGENT_DRIVER_NODE:
        *(uint32_t *)value = THUNK_FIRST_NODE + (uint32_t)agent.handle - 1;
        return DMA_ROCR_SUCCESS;
    default:
        return 1;
    }
}

dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason);
dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason)
{
    (void)reason;
    *rocr = (dma_rocr_t){.iterate_agents = iterate_agents, .agent_info = agent_info};
    return DMA_OK;
}
