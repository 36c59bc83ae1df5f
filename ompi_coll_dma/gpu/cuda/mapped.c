/*
 * CUDA: virtually mapped memory, shared by file descriptors (gpu/mapped.h).
 *
 * What is mapped at an address is said by attributes of the address, in one call:
 *
 *     MAPPING_BASE, MAPPING_SIZE    of the mapping. RANGE_START and RANGE_SIZE are those of the reservation, which can hold many
 *     MEMORY_BLOCK_ID               of the physical allocation. It is never used again, while BUFFER_ID is not promised to change
 *                                   when other memory is mapped at the same addresses
 *     ALLOWED_HANDLE_TYPES          how the allocation can be shared. Fabric handles alone are not enough: they need a service
 *                                   of the machine that single nodes do not run
 *
 * A driver without one of them refuses the call. Then no such memory is shared.
 */
#include "gpu/cuda/cuda.h"

/* The driver writes 4 or 8 bytes of each attribute, so all members start at zero. */
typedef struct mapping_attributes {
    uint64_t base, size, id, handles, ordinal;
} mapping_attributes_t;

dma_status_t dma_cuda_mapping(uint64_t addr, dma_gpu_mapping_t *result)
{
    mapping_attributes_t m = {0};
    cuda_enum_t names[] = {CUDA_ATTRIBUTE_MAPPING_BASE, CUDA_ATTRIBUTE_MAPPING_SIZE, CUDA_ATTRIBUTE_BLOCK_ID,
                           CUDA_ATTRIBUTE_ALLOWED_HANDLES, CUDA_ATTRIBUTE_DEVICE_ORDINAL};
    void *data[] = {&m.base, &m.size, &m.id, &m.handles, &m.ordinal};

    _Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(data) / sizeof(data[0]), "one result for each attribute");
    if (dma_cuda_get_attributes(sizeof(names) / sizeof(names[0]), names, data, addr) != CUDA_DONE || !m.size) {
        return DMA_UNSUPPORTED;
    }
    *result = (dma_gpu_mapping_t){
        .base = m.base,
        .size = m.size,
        .id = m.id,
        .device = (int)(int32_t)m.ordinal,
        .shareable = m.handles & CUDA_HANDLE_FD,
    };
    return DMA_OK;
}

static dma_status_t map_export(uint64_t addr, int *fd)
{
    cuda_addr_t handle;
    int made = -1;
    dma_status_t status = DMA_CUDA_TRY(mem_retain_handle, &handle, (void *)(uintptr_t)addr);

    if (status != DMA_OK) {
        return status;
    }
    status = DMA_CUDA_TRY(mem_export, &made, handle, CUDA_HANDLE_FD, 0);
    (void)DMA_CUDA(mem_release, handle);
    if (status == DMA_OK) {
        *fd = made;
    }
    return status;
}

static dma_status_t reserve(uint64_t bytes, uint64_t *base)
{
    cuda_addr_t at = 0;
    dma_status_t status = DMA_CUDA_TRY(mem_reserve, &at, bytes, 0, 0, 0);

    if (status == DMA_OK) {
        *base = at;
    }
    return status;
}

/* The mapping keeps the allocation alive, so the handle is released at once. */
static dma_status_t map_import(uint64_t addr, uint64_t bytes, int fd)
{
    cuda_access_t access;
    cuda_addr_t handle;
    dma_status_t status;
    int device;

    if ((status = DMA_CUDA_TRY(ctx_get_device, &device)) != DMA_OK ||
        (status = DMA_CUDA_TRY(mem_import, &handle, (void *)(uintptr_t)fd, CUDA_HANDLE_FD)) != DMA_OK) {
        return status;
    }
    status = DMA_CUDA_TRY(mem_map, addr, bytes, 0, handle, 0);
    (void)DMA_CUDA(mem_release, handle);
    if (status != DMA_OK) {
        return status;
    }
    *(cuda_layout_access_t *)(void *)&access =
        (cuda_layout_access_t){.type = CUDA_LOCATION_DEVICE, .id = device, .flags = CUDA_ACCESS_READ_WRITE};
    status = DMA_CUDA_TRY(mem_set_access, addr, bytes, &access, 1);
    if (status != DMA_OK) {
        (void)DMA_CUDA(mem_unmap, addr, bytes);
    }
    return status;
}

/* The driver unmaps whole mappings only, so each is unmapped on its own. */
static dma_status_t unmap(uint64_t base, uint64_t bytes, const uint64_t *sizes, size_t n)
{
    dma_status_t status = DMA_OK;
    uint64_t at = base;

    for (size_t i = 0; i < n && status == DMA_OK; i++) {
        status = DMA_CUDA(mem_unmap, at, sizes[i]);
        at += sizes[i];
    }
    return status == DMA_OK ? DMA_CUDA(mem_unreserve, base, bytes) : status;
}

void dma_cuda_fill_mapped(dma_gpu_runtime_t *table)
{
    bool has = dma_cuda.mem_export && dma_cuda.mem_import && dma_cuda.mem_reserve && dma_cuda.mem_unreserve &&
               dma_cuda.mem_map && dma_cuda.mem_unmap && dma_cuda.mem_set_access;

    table->mapping = has ? dma_cuda_mapping : NULL;
    table->map_export = has ? map_export : NULL;
    table->reserve = has ? reserve : NULL;
    table->map_import = has ? map_import : NULL;
    table->unmap = has ? unmap : NULL;
}
