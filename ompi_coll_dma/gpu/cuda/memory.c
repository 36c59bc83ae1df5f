/*
 * CUDA: queries of addresses, IPC, registration, allocation.
 *
 * One call classifies plain memory (memory that the driver reports as capable of legacy IPC), pool memory, managed
 * memory, unknown memory and page-locked host memory. The driver does not say whether host memory was allocated or
 * registered. All other memory needs a second call. Its result is cached by buffer id, which the driver gives to one
 * allocation only.
 */
#include "gpu/cuda/cuda.h"

/* Per thread, by id modulo this: more than the buffers that a program's calls alternate between. */
#define CACHED_KINDS 32

static _Thread_local struct {
    uint64_t id;
    dma_gpu_kind_t kind;
} kind_cache[CACHED_KINDS];

/* The driver writes 1, 4 or 8 bytes of each attribute, so all members start at zero. */
typedef struct cuda_attributes {
    uint64_t type, device_addr, id, managed, ordinal, ipc, start, size, pool;
} cuda_attributes_t;

static cuda_error_t get_attributes(uint64_t addr, cuda_attributes_t *attributes)
{
    cuda_enum_t names[] = {CUDA_ATTRIBUTE_MEMORY_TYPE, CUDA_ATTRIBUTE_DEVICE_POINTER, CUDA_ATTRIBUTE_BUFFER_ID,
                           CUDA_ATTRIBUTE_IS_MANAGED,  CUDA_ATTRIBUTE_DEVICE_ORDINAL, CUDA_ATTRIBUTE_IPC_CAPABLE,
                           CUDA_ATTRIBUTE_RANGE_START, CUDA_ATTRIBUTE_RANGE_SIZE,     CUDA_ATTRIBUTE_MEMPOOL_HANDLE};
    void *data[] = {&attributes->type,    &attributes->device_addr, &attributes->id,
                    &attributes->managed, &attributes->ordinal,     &attributes->ipc,
                    &attributes->start,   &attributes->size,        &attributes->pool};

    _Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(data) / sizeof(data[0]), "one result for each attribute");
    *attributes = (cuda_attributes_t){0};
    return dma_cuda.pointer_get_attributes(sizeof(names) / sizeof(names[0]), names, data, addr);
}

/* A device with an active primary context, or -1. */
static int active_device(void)
{
    cuda_device_t device;
    unsigned flags;
    int count = 0, active = 0;

    if (dma_cuda.device_get_count(&count) != CUDA_DONE) {
        return -1;
    }
    for (int i = 0; i < count; i++) {
        if (dma_cuda.device_get(&device, i) == CUDA_DONE &&
            dma_cuda.primary_get_state(device, &flags, &active) == CUDA_DONE && active) {
            return i;
        }
    }
    return -1;
}

/* For a thread without a context. Any context is good enough, because addresses are unique in a process. */
static cuda_error_t get_attributes_in_context(uint64_t addr, cuda_attributes_t *attributes)
{
    cuda_error_t error = CUDA_INVALID_CONTEXT;
    int device = active_device();
    dma_gpu_scope_t scope;

    if (device >= 0 && dma_cuda_enter(device, &scope) == DMA_OK) {
        error = get_attributes(addr, attributes);
        dma_cuda_leave(&scope);
    }
    return error;
}

static bool mapped_virtually(uint64_t addr)
{
    dma_gpu_scope_t scope;
    cuda_addr_t handle;
    bool is;

    dma_cuda_capture_relax(&scope);
    is = dma_cuda.mem_retain_handle(&handle, (void *)(uintptr_t)addr) == CUDA_DONE;
    if (is) {
        dma_cuda.mem_release(handle);
    }
    dma_cuda_capture_restore(&scope);
    return is;
}

/* The kind of device memory that needs a second call. */
static dma_gpu_kind_t query_kind(uint64_t addr, const cuda_attributes_t *attributes)
{
    if (attributes->id && kind_cache[attributes->id % CACHED_KINDS].id == attributes->id) {
        return kind_cache[attributes->id % CACHED_KINDS].kind;
    }
    kind_cache[attributes->id % CACHED_KINDS].id = attributes->id;
    return kind_cache[attributes->id % CACHED_KINDS].kind =
               mapped_virtually(addr) ? DMA_GPU_DEVICE_VMM : DMA_GPU_DEVICE_IMPORTED;
}

static dma_gpu_kind_t kind_of(uint64_t addr, const cuda_attributes_t *attributes)
{
    if (attributes->managed) {
        return DMA_GPU_MANAGED;
    }
    if (attributes->type == CUDA_TYPE_HOST) {
        return DMA_GPU_HOST_PINNED;
    }
    if (attributes->type != CUDA_TYPE_DEVICE) {
        return DMA_GPU_UNKNOWN;
    }
    if (attributes->pool) {
        return DMA_GPU_DEVICE_POOL;
    }
    return attributes->ipc ? DMA_GPU_DEVICE_PLAIN : query_kind(addr, attributes);
}

/* Whether the error means that CUDA was never initialized or has shut down, so that there is no device memory. Any
 * other error leaves the kind unknown. */
static bool no_device_memory(cuda_error_t error)
{
    return error == CUDA_NOT_INITIALIZED || error == CUDA_DEINITIALIZED || error == CUDA_NO_DEVICE ||
           error == CUDA_INVALID_CONTEXT || error == CUDA_CONTEXT_DESTROYED;
}

dma_status_t dma_cuda_query(uint64_t addr, dma_gpu_memory_t *memory)
{
    cuda_attributes_t attributes;
    cuda_error_t error = get_attributes(addr, &attributes);

    if (error == CUDA_INVALID_CONTEXT) {
        error = get_attributes_in_context(addr, &attributes);
    }
    if (error != CUDA_DONE && !no_device_memory(error)) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_UNKNOWN, .device = -1, .device_addr = addr};
        memory->reason = "CUDA answers with an error";
        dma_cuda_status(error, "pointer_get_attributes");
        return DMA_OK;
    }
    if (error != CUDA_DONE || attributes.type == 0) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_HOST, .device = -1, .device_addr = addr};
        return DMA_OK;
    }
    *memory = (dma_gpu_memory_t){
        .kind = kind_of(addr, &attributes),
        .device = (int)(int32_t)attributes.ordinal,
        .base = attributes.start,
        .size = attributes.size,
        .buffer_id = attributes.id,
        .device_addr = attributes.device_addr ? attributes.device_addr : addr,
    };
    return DMA_OK;
}

static dma_status_t ipc_export(uint64_t base, dma_gpu_handle_t *handle)
{
    return DMA_CUDA_TRY(ipc_get, (cuda_ipc_handle_t *)handle, base);
}

static dma_status_t ipc_open(const dma_gpu_handle_t *handle, uint64_t *base)
{
    cuda_addr_t addr = 0;
    dma_status_t status = DMA_CUDA_TRY(ipc_open, &addr, *(const cuda_ipc_handle_t *)handle, CUDA_IPC_LAZY_PEER_ACCESS);

    if (status == DMA_OK) {
        *base = addr;
    }
    return status;
}

static dma_status_t ipc_close(uint64_t base)
{
    return DMA_CUDA(ipc_close, base);
}

static dma_status_t host_register(void *addr, uint64_t bytes, uint64_t *device_addr)
{
    dma_status_t status =
        DMA_CUDA_TRY(host_register, addr, bytes, CUDA_HOST_REGISTER_PORTABLE | CUDA_HOST_REGISTER_MAPPED);
    cuda_addr_t at = 0;

    if (status != DMA_OK) {
        return status;
    }
    status = DMA_CUDA_TRY(host_device_pointer, &at, addr, 0);
    if (status != DMA_OK) {
        goto unregister;
    }
    *device_addr = at;
    return DMA_OK;

unregister:
    dma_cuda.host_unregister(addr);
    return status;
}

static dma_status_t host_unregister(void *addr)
{
    return DMA_CUDA(host_unregister, addr);
}

static dma_status_t alloc(uint64_t bytes, uint64_t *addr)
{
    cuda_addr_t at = 0;
    dma_status_t status = DMA_CUDA(mem_alloc, &at, bytes);

    if (status == DMA_OK) {
        *addr = at;
    }
    return status;
}

static dma_status_t free_device(uint64_t addr)
{
    return DMA_CUDA(mem_free, addr);
}

_Static_assert(sizeof(cuda_ipc_handle_t) == sizeof(dma_gpu_handle_t), "a handle is passed on as it is");

void dma_cuda_fill_memory(dma_gpu_runtime_t *table)
{
    table->ipc_export = ipc_export;
    table->ipc_open = ipc_open;
    table->ipc_close = ipc_close;
    table->host_register = host_register;
    table->host_unregister = host_unregister;
    table->alloc = alloc;
    table->free = free_device;
}
