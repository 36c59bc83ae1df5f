/*
 * The thunk's calls about nodes, memory banks, caches, links and clocks, from the persona.
 *
 * Undocumented requirements of AMD's runtime: the host has caches. A GPU has caches, LDS and scratch windows above 4 GiB, a
 * link to the host, doorbells of type 2, and a hive if peers are to copy over links.
 */
#include "api.h"
#include "clock.h"
#include "config.h"
#include "persona.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, BANKS = 4, HOST_CACHES = 3, GPU_CACHES = 2 };

static void set_name(HSAuint16 *to, const char *name)
{
    for (size_t i = 0; i < HSA_PUBLIC_NAME_SIZE - 1 && name[i]; i++)
        to[i] = (HSAuint16)(unsigned char)name[i];
}

static void host_properties(HsaNodeProperties *node)
{
    node->NumCPUCores = (HSAuint32)sysconf(_SC_NPROCESSORS_ONLN);
    node->NumMemoryBanks = 1;
    node->NumCaches = HOST_CACHES;
    node->NumIOLinks = emu_node_count() - 1;
    node->MaxEngineClockMhzCCompute = 2500;
    set_name(node->MarketingName, "Emulated host");
}

static void gpu_properties(int gpu, HsaNodeProperties *node)
{
    const struct emu_persona *persona = emu_config()->persona;
    node->NumIOLinks = emu_node_count() - 1; /* the host and the other GPUs */
    node->NumMemoryBanks = BANKS;
    node->NumCaches = GPU_CACHES;
    node->FComputeIdLo = 0x80000000u + (HSAuint32)gpu * 0x1000;
    node->Capability.ui32.DoorbellType = 2;
    node->Capability.ui32.WatchPointsSupported = 1;
    node->Capability.ui32.WatchPointsTotalBits = 2;
    node->Capability.ui32.QueueSizePowerOfTwo = 1;
    node->Capability.ui32.SRAM_EDCSupport = 1;
    node->Capability.ui32.ASICRevision = 1;
    node->EngineId.ui32.uCode = 71;
    node->EngineId.ui32.Major = persona->isa_major;
    node->EngineId.ui32.Minor = persona->isa_minor;
    node->EngineId.ui32.Stepping = persona->isa_stepping;
    node->uCodeEngineVersions.uCodeSDMA = 8;
    node->NumSIMDPerCU = 4;
    node->NumFComputeCores = persona->compute_units * node->NumSIMDPerCU;
    node->NumShaderBanks = 8;
    node->NumArrays = 1;
    node->NumCUPerArray = (persona->compute_units + 7) / 8;
    node->MaxWavesPerSIMD = 8;
    node->WaveFrontSize = 64;
    node->LDSSizeInKB = 64;
    node->MaxSlotsScratchCU = 32;
    node->VGPRSizePerCU = 512 << 10;
    node->SGPRSizePerCU = 16 << 10;
    node->MaxEngineClockMhzFCompute = 1700;
    node->VendorId = 0x1002;
    node->DeviceId = persona->device_id;
    node->LocationId = emu_persona_location(persona, gpu);
    node->UniqueID = emu_persona_unique_id(persona, gpu);
    node->DrmRenderMinor = 128 + gpu;
    node->HiveID = EMU_HIVE_ID;
    node->NumSdmaEngines = persona->host_engines;
    node->NumSdmaXgmiEngines = persona->xgmi_engines;
    node->NumSdmaQueuesPerEngine = EMU_QUEUES_PER_ENGINE;
    node->NumCpQueues = 24;
    node->NumGws = 64;
    set_name(node->MarketingName, persona->marketing_name);
    strncpy((char *)node->AMDName, persona->name, HSA_PUBLIC_NAME_SIZE - 1);
}

HSAKMT_STATUS hsaKmtGetNodeProperties(HSAuint32 node, HsaNodeProperties *properties)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    memset(properties, 0, sizeof *properties);
    if (emu_is_gpu(node))
        gpu_properties(emu_gpu_of(node), properties);
    else
        host_properties(properties);
    return HSAKMT_STATUS_SUCCESS;
}

/* The page to which a flush of the host data path writes. The runtime asks for its address. */
static void *flush_page;

static void make_flush_page(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    flush_page = page == MAP_FAILED ? NULL : page;
}

HSAKMT_STATUS hsaKmtGetNodeMemoryProperties(HSAuint32 node, HSAuint32 count, HsaMemoryProperties *banks)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_flush_page);
    HsaMemoryProperties host = {.HeapType = HSA_HEAPTYPE_SYSTEM, .Width = 64, .MemoryClockMax = 3200};
    host.SizeInBytes = (HSAuint64)sysconf(_SC_PHYS_PAGES) * (HSAuint64)sysconf(_SC_PAGESIZE);
    HsaMemoryProperties gpu[BANKS] = {
        {.HeapType = HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC, .Width = 4096, .MemoryClockMax = 1600},
        {.HeapType = HSA_HEAPTYPE_GPU_LDS, .VirtualBaseAddress = 0x1000000000000ull},
        {.HeapType = HSA_HEAPTYPE_GPU_SCRATCH, .VirtualBaseAddress = 0x2000000000000ull},
        {.HeapType = HSA_HEAPTYPE_MMIO_REMAP, .VirtualBaseAddress = (uintptr_t)flush_page},
    };
    gpu[0].SizeInBytes = emu_config()->persona->vram_bytes;
    gpu[1].SizeInBytes = 64 << 10;
    gpu[2].SizeInBytes = 4ull << 30;
    gpu[3].SizeInBytes = PAGE;
    HSAuint32 there = emu_is_gpu(node) ? BANKS : 1;
    memset(banks, 0, count * sizeof *banks);
    memcpy(banks, emu_is_gpu(node) ? gpu : &host, (count < there ? count : there) * sizeof *banks);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeCacheProperties(HSAuint32 node, HSAuint32 processor, HSAuint32 count,
                                           HsaCacheProperties *caches)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    memset(caches, 0, count * sizeof *caches);
    for (HSAuint32 i = 0; i < count; i++) {
        caches[i].ProcessorIdLow = processor;
        caches[i].CacheLevel = i + 1;
        caches[i].CacheSize = i ? 8192 : 16;
        caches[i].CacheLineSize = i ? 128 : 64;
        caches[i].CacheType.ui32.Data = 1;
        caches[i].CacheType.ui32.HSACU = emu_is_gpu(node);
        caches[i].CacheType.ui32.CPU = !emu_is_gpu(node);
    }
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetNodeIoLinkProperties(HSAuint32 node, HSAuint32 count, HsaIoLinkProperties *links)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    memset(links, 0, count * sizeof *links);
    HSAuint32 filled = 0;
    for (HSAuint32 to = 0; to < emu_node_count() && filled < count; to++) {
        if (to == node)
            continue;
        int xgmi = emu_is_gpu(node) && emu_is_gpu(to);
        HsaIoLinkProperties *link = &links[filled++];
        link->IoLinkType = xgmi ? HSA_IOLINK_TYPE_XGMI : HSA_IOLINKTYPE_PCIEXPRESS;
        link->NodeFrom = node;
        link->NodeTo = to;
        link->Weight = xgmi ? EMU_LINK_WEIGHT_XGMI : EMU_LINK_WEIGHT_PCIE;
        link->MinimumBandwidth = link->MaximumBandwidth = xgmi ? 50000 : 32000;
    }
    return HSAKMT_STATUS_SUCCESS;
}

/* The host has no GPU clock. AMD's runtime asks the host for the frequency of the system clock. */
HSAKMT_STATUS hsaKmtGetClockCounters(HSAuint32 node, HsaClockCounters *counters)
{
    EMU_API_ENTER();
    if (node >= emu_node_count())
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    uint64_t now = emu_clock_ns();
    counters->GPUClockCounter = emu_is_gpu(node) ? now / EMU_CLOCK_GPU_NS : 0;
    counters->CPUClockCounter = now;
    counters->SystemClockCounter = now;
    counters->SystemClockFrequencyHz = 1000000000;
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS hsaKmtGetTileConfig(HSAuint32 node, HsaGpuTileConfig *config)
{
    EMU_API_ENTER();
    if (!emu_is_gpu(node))
        return HSAKMT_STATUS_INVALID_NODE_UNIT;
    config->NumTileConfigs = config->NumMacroTileConfigs = 0;
    config->GbAddrConfig = 0x104042;
    config->NumBanks = config->NumRanks = 0;
    return HSAKMT_STATUS_SUCCESS;
}
