/* Which GPU of the kernel a device of the runtime is: see private.h. */
#include "engine/sdma/private.h"

dma_status_t dma_sdma_locate(const dma_gpu_config_t *config, dma_sdma_unit_t *unit, char *why)
{
    dma_counters_t *counters = config->counters;
    const char *reason = "";
    uint32_t location;

    if (config->rt->device_pci(config->device, &unit->pci) != DMA_OK) {
        return dma_gpu_refuse_for(counters, why, DMA_REASON_sdma_location, NULL);
    }
    if (dma_topo_read(config->sysfs ? config->sysfs : DMA_TOPO_ROOT, &unit->topo, &reason) != DMA_OK) {
        return dma_gpu_refuse_for(counters, why, DMA_REASON_sdma_topology, reason);
    }
    location = unit->pci.bus << 8 | unit->pci.device << 3 | unit->pci.function;
    unit->gpu = dma_topo_find(unit->topo, unit->pci.domain, location, DMA_TOPO_ANY_PARTITION);
    if (!unit->gpu) {
        bool several = dma_topo_count(unit->topo, unit->pci.domain, location);

        return dma_gpu_refuse_for(counters, why, several ? DMA_REASON_sdma_partitions : DMA_REASON_sdma_absent, NULL);
    }
    if (!unit->pci.has_function && !dma_topo_is_whole_device(unit->topo, unit->gpu)) {
        return dma_gpu_refuse_for(counters, why, DMA_REASON_sdma_partition_unknown, NULL);
    }
    if (!(unit->gen = dma_gen_find(unit->gpu->device_id, unit->gpu->version, &reason))) {
        return dma_gpu_refuse_for(counters, why, DMA_REASON_sdma_topology, reason);
    }
    unit->limited = *unit->gen;
    unit->limited.has &= config->stamps ? ~UINT32_C(0) : ~(uint32_t)DMA_GEN_TIMESTAMP;
    unit->gen = &unit->limited;
    return DMA_OK;
}
