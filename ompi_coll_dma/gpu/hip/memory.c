/*
 * HIP: queries of addresses, IPC, registration, allocation.
 *
 * HIP says little about how an allocation was made. ROCr says all of it, but knows neither HIP's device ordinals nor an
 * id that distinguishes two allocations at one address. The kind of an allocation never changes, and HIP never reuses
 * an id (before 2^32 allocations; after that the address still has to match). So ROCr is asked once per allocation and
 * thread, and a query of recently used memory is one call.
 *
 * Some attributes must not be queried for every address: if HIP 5 does not know the memory, a query of the memory type
 * reads the memory, which need not exist. So the type is queried only after HIP has reported that it knows the address.
 *
 * HIP reports the size with 32 bits. ROCr reports all bits, but rounded up to pages. The two together give the exact
 * size.
 */
#include "gpu/hip/hip.h"
#include "gpu/tied.h"

/* Per thread, by id modulo this: more than the buffers that a program's calls alternate between. */
#define CACHED_KINDS 32

typedef struct kind_cache {
    uint64_t id, base, size, device_base;
    dma_gpu_kind_t kind;
    dma_reason_t reason;
} hip_cached_kind_t;

static _Thread_local hip_cached_kind_t kind_cache[CACHED_KINDS];
static bool hip6; /* HIP 6 or newer */

/* Attributes that may be queried for any address. HIP writes 1, 4 or 8 bytes of each, so all members start at zero. */
typedef struct hip_attributes {
    uint64_t ordinal, managed, id, size;
} hip_attributes_t;

/* Attributes that are queried only for an address that HIP knows. Old versions of HIP leave the pool at zero. */
typedef struct details {
    uint64_t type, pool;
} hip_details_t;

static bool get_attributes(uint64_t addr, hip_enum_t *names, void **data, unsigned n)
{
    return dma_hip.hipDrvPointerGetAttributes(n, names, data, (void *)(uintptr_t)addr) == HIP_DONE;
}

static bool get_common_attributes(uint64_t addr, hip_attributes_t *attributes)
{
    hip_enum_t names[] = {HIP_ATTRIBUTE_DEVICE_ORDINAL, HIP_ATTRIBUTE_IS_MANAGED, HIP_ATTRIBUTE_BUFFER_ID,
                          HIP_ATTRIBUTE_RANGE_SIZE};
    void *data[] = {&attributes->ordinal, &attributes->managed, &attributes->id, &attributes->size};

    *attributes = (hip_attributes_t){0};
    /* HIP returns success for any address. If it does not know the address, the ordinal is negative. */
    return get_attributes(addr, names, data, sizeof(names) / sizeof(names[0])) && (int32_t)attributes->ordinal >= 0;
}

static hip_details_t get_details(uint64_t addr)
{
    hip_enum_t names[] = {HIP_ATTRIBUTE_MEMORY_TYPE, HIP_ATTRIBUTE_MEMPOOL_HANDLE};
    hip_details_t details = {0};
    void *data[] = {&details.type, &details.pool};

    return get_attributes(addr, names, data, sizeof(names) / sizeof(names[0])) ? details : (hip_details_t){0};
}

static dma_gpu_kind_t host_kind(const hip_attributes_t *attributes, const hsa_pointer_info_t *info)
{
    if (attributes->managed) {
        return DMA_GPU_MANAGED;
    }
    return info->type == HSA_POINTER_LOCKED ? DMA_GPU_HOST_REGISTERED : DMA_GPU_HOST_PINNED;
}

static dma_gpu_kind_t device_kind(const hip_details_t *details, const hip_attributes_t *attributes,
                                  const hsa_pointer_info_t *info)
{
    if (attributes->managed) {
        return DMA_GPU_MANAGED;
    }
    switch ((hsa_pointer_type_t)info->type) {
    case HSA_POINTER_IPC:
    case HSA_POINTER_GRAPHICS:
        return DMA_GPU_DEVICE_IMPORTED;
    case HSA_POINTER_RESERVED:
    case HSA_POINTER_VMEM:
        return DMA_GPU_DEVICE_VMM;
    case HSA_POINTER_ALLOCATED:
        if (details->pool) {
            return DMA_GPU_DEVICE_POOL;
        }
        return (info->flags & HSA_FLAG_COARSE_GRAINED) && !(info->flags & HSA_FLAG_FINE_GRAINED) ? DMA_GPU_DEVICE_PLAIN
                                                                                                 : DMA_GPU_DEVICE_FINE;
    case HSA_POINTER_UNKNOWN:
    case HSA_POINTER_LOCKED:
        break;
    }
    return DMA_GPU_UNKNOWN;
}

/* Returns false if ROCr does not know the address. Then the kind is a guess that must not be cached. */
static bool query_kind(uint64_t addr, const hip_attributes_t *attributes, hip_cached_kind_t *r)
{
    hip_details_t details = get_details(addr);
    bool device = details.type == (hip6 ? HIP_6_TYPE_DEVICE : HIP_5_TYPE_DEVICE), known;
    hsa_pointer_info_t info = {.size = sizeof(info)};
    uint64_t host, agent;

    known = dma_hsa.pointer_info((void *)(uintptr_t)addr, &info, NULL, NULL, NULL) == HSA_DONE &&
            info.type != HSA_POINTER_UNKNOWN;
    if (!known) {
        info = (hsa_pointer_info_t){.type = HSA_POINTER_UNKNOWN};
    }
    host = (uintptr_t)info.host_base;
    agent = (uintptr_t)info.agent_base;
    r->id = attributes->id;
    r->kind = device ? device_kind(&details, attributes, &info) : host_kind(attributes, &info);
    /* Registered memory has two addresses, one for the host and one for the device. The query was for the host
     * address. */
    r->base = device || host == 0 ? agent : host;
    r->device_base = agent;
    r->size = info.bytes - (uint32_t)(info.bytes - attributes->size);
    return known && addr - r->base < r->size;
}

dma_status_t dma_hip_query(uint64_t addr, dma_gpu_memory_t *memory)
{
    hip_attributes_t attributes;
    hip_cached_kind_t *r, guess;

    if (!dma_hip_is_initialized() || !get_common_attributes(addr, &attributes)) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_HOST, .device = -1, .device_addr = addr};
        return DMA_OK;
    }
    r = &kind_cache[attributes.id % CACHED_KINDS];
    if (r->id != attributes.id || addr - r->base >= r->size) {
        dma_gpu_guard_detect(&dma_hip_guard); /* after a reset all memory is new, so a reset is detected here */
        if (!query_kind(addr, &attributes, &guess)) {
            guess.base = guess.device_base = addr;
            guess.size = 0;
            guess.id = 0;
            r = &guess;
        } else {
            *r = guess;
        }
    }
    *memory = (dma_gpu_memory_t){
        .kind = r->kind,
        .device = (int)(int32_t)attributes.ordinal,
        .base = r->size ? r->base : 0,
        .size = r->size,
        .buffer_id = attributes.id,
        .device_addr = r->device_base + (addr - r->base),
    };
    return DMA_OK;
}

static dma_status_t ipc_export(uint64_t base, dma_gpu_handle_t *handle)
{
    return DMA_HIP_TRY(hipIpcGetMemHandle, (hip_ipc_handle_t *)handle, (void *)(uintptr_t)base);
}

static dma_status_t ipc_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    void *ptr = NULL;
    dma_status_t status = DMA_HIP_TRY(hipIpcOpenMemHandle, &ptr, *(const hip_ipc_handle_t *)handle,
                                      hip6 ? HIP_6_IPC_LAZY_PEER_ACCESS : HIP_5_IPC_LAZY_PEER_ACCESS);

    if (status == DMA_OK) {
        *base = (uintptr_t)ptr;
    }
    return status;
}

static dma_status_t ipc_close(uint64_t base)
{
    dma_status_t status = dma_hip_quiesce();

    return status == DMA_OK ? DMA_HIP(hipIpcCloseMemHandle, (void *)(uintptr_t)base) : status;
}

static bool holds(uint64_t addr)
{
    hsa_pointer_info_t info = {.size = sizeof(info)};

    return dma_hsa.pointer_info((void *)(uintptr_t)addr, &info, NULL, NULL, NULL) == HSA_DONE &&
           info.type != HSA_POINTER_UNKNOWN;
}

static dma_status_t host_register(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    dma_status_t status =
        DMA_HIP_TRY(hipHostRegister, addr, bytes, HIP_HOST_REGISTER_PORTABLE | HIP_HOST_REGISTER_MAPPED);
    void *ptr = NULL;

    if (status != DMA_OK) {
        return status;
    }
    status = DMA_HIP_TRY(hipHostGetDevicePointer, &ptr, addr, 0);
    if (status != DMA_OK) {
        goto unregister;
    }
    *device_addr = (uintptr_t)ptr;
    return DMA_OK;

unregister:
    dma_hip.hipHostUnregister(addr);
    return status;
}

static dma_status_t host_unregister(void *addr)
{
    /* Memory that HIP still holds stays registered until its commands end, but HIP forgets the address at once. */
    (void)dma_hip_quiesce();
    return DMA_HIP(hipHostUnregister, addr);
}

static dma_status_t alloc(uint64_t bytes, uint64_t *addr)
{
    void *ptr = NULL;
    /* At least a block, so that ROCr carves nothing else out of the block that an export ties up (gpu/tied.h). */
    dma_status_t status = DMA_HIP(hipMalloc, &ptr, bytes < DMA_TIED_BLOCK_BYTES ? DMA_TIED_BLOCK_BYTES : bytes);

    if (status == DMA_OK) {
        *addr = (uintptr_t)ptr;
    }
    return status;
}

static dma_status_t free_device(uint64_t addr)
{
    return DMA_HIP(hipFree, (void *)(uintptr_t)addr);
}

_Static_assert(sizeof(hip_ipc_handle_t) == sizeof(dma_gpu_handle_t), "a handle is passed on as it is");

void dma_hip_fill_memory(dma_gpu_runtime_t *table)
{
    hip6 = table->version >= HIP_6;
    table->ipc_export = ipc_export;
    table->ipc_open = ipc_open;
    table->ipc_close = ipc_close;
    table->holds = holds;
    table->host_register = host_register;
    table->host_unregister = host_unregister;
    table->alloc = alloc;
    table->free = free_device;
}
