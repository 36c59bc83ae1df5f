/* Which GPU of the kernel a device of the runtime is, and what follows from that: see private.h. */
#include "engine/sdma/private.h"
#include "engine/sdma/proof/proof.h"

dma_status_t dma_sdma_locate(const dma_gpu_config_t *config, dma_sdma_unit_t *unit, char *why)
{
    const char *reason = "no memory for the engine";
    uint32_t location;

    if (config->rt->device_pci(config->device, &unit->pci) != DMA_OK) {
        return dma_gpu_refuse(why, "the runtime does not say where the device is");
    }
    if (dma_topo_read(config->sysfs ? config->sysfs : DMA_TOPO_ROOT, &unit->topo, &reason) != DMA_OK) {
        return dma_gpu_refuse(why, reason);
    }
    location = unit->pci.bus << 8 | unit->pci.device << 3 | unit->pci.function;
    unit->gpu = dma_topo_find(unit->topo, unit->pci.domain, location, DMA_TOPO_ANY_PARTITION);
    if (!unit->gpu) {
        bool several = dma_topo_count(unit->topo, unit->pci.domain, location);

        return dma_gpu_refuse(why, several ? "several GPUs or partitions have the PCI address of the device"
                                           : "the device is not among the GPUs that the kernel describes");
    }
    if (!unit->pci.has_function && !dma_topo_is_whole_device(unit->topo, unit->gpu)) {
        return dma_gpu_refuse(why, "the runtime does not say which partition of a GPU the device is");
    }
    if (!(unit->gen = dma_gen_find(unit->gpu->device_id, unit->gpu->version, &reason))) {
        return dma_gpu_refuse(why, reason);
    }
    unit->limited = *unit->gen;
    unit->limited.has &= config->stamps ? ~UINT32_C(0) : ~(uint32_t)DMA_GEN_TIMESTAMP;
    unit->gen = &unit->limited;
    return DMA_OK;
}

dma_provider_gpu_t dma_sdma_provider_gpu(const dma_sdma_unit_t *unit, const dma_proof_t *proof)
{
    return (dma_provider_gpu_t){
        .address = {.domain = unit->gpu->domain, .location_id = dma_topo_location_id(unit->gpu)},
        .gpu_id = unit->gpu->gpu_id,
        .host_engines = unit->gpu->host_engines,
        .xgmi_engines = unit->gpu->xgmi_engines,
        .by_number = unit->gen->even_engines,
        .refuses = proof ? dma_proof_copies_failed : NULL,
        .refuses_arg = (void *)(uintptr_t)proof,
    };
}

static uint32_t features_of(const dma_sdma_unit_t *unit)
{
    static const struct {
        uint32_t has, feature;
    } table[] = {{DMA_GEN_SWAP, DMA_GPU_SWAP_PACKETS},
                 {DMA_GEN_BROADCAST, DMA_GPU_BCST_PACKETS},
                 {DMA_GEN_COND, DMA_GPU_PRELAUNCH},
                 {DMA_GEN_RECT, DMA_GPU_SHAPES}};
    uint32_t features = DMA_GPU_EPOCH_WORDS;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        features |= unit->gen->has & table[i].has ? table[i].feature : 0;
    }
    return features;
}

dma_gpu_traits_t dma_sdma_traits(const dma_sdma_unit_t *unit)
{
    uint32_t engines = (uint32_t)__builtin_popcount(dma_map_engines(unit->gen, unit->gpu));

    return (dma_gpu_traits_t){
        .node = unit->gpu->node, /* the kernel's number: links of peers name it */
        .features = features_of(unit),
        .max_ways = engines ? engines * DMA_SDMA_QUEUES_PER_ENGINE : 1,
    };
}
