/*
 * CUDA: what memory an address is, and memory of the application that a call is about to use.
 *
 * One call classifies plain memory (memory that the driver reports as capable of legacy IPC), pool memory, managed
 * memory, unknown memory and page-locked host memory. The driver does not say whether host memory was allocated or
 * registered. All other memory needs a second call.
 *
 * What is known of an allocation is cached by its buffer id, which the driver gives to one allocation only and never
 * again. So the second call is made once for each allocation and thread, and memory is adopted once.
 */
#include "gpu/cuda/cuda.h"

/* Per thread: more than the buffers that a program's calls alternate between. The set is the id modulo SETS, so four
 * buffers with such ids do not displace each other. */
#define SETS 16
#define WAYS 4

typedef struct cuda_known {
    uint64_t id; /* 0: unused */
    dma_gpu_kind_t kind;
    bool adopted; /* or the driver has refused it */
} cuda_known_t;

static _Thread_local struct {
    cuda_known_t entries[WAYS];
    unsigned oldest;
} known[SETS];

static cuda_known_t *find_known(uint64_t id)
{
    cuda_known_t *k = known[id % SETS].entries;

    for (int i = 0; i < WAYS; i++) {
        if (k[i].id == id) {
            return &k[i];
        }
    }
    return NULL;
}

static cuda_known_t *add_known(uint64_t id, dma_gpu_kind_t kind)
{
    cuda_known_t *k = &known[id % SETS].entries[known[id % SETS].oldest++ % WAYS];

    *k = (cuda_known_t){.id = id, .kind = kind};
    return k;
}

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
    return dma_cuda_get_attributes(sizeof(names) / sizeof(names[0]), names, data, addr);
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
    if (attributes->ipc) {
        return DMA_GPU_DEVICE_PLAIN;
    }
    return mapped_virtually(addr) ? DMA_GPU_DEVICE_VMM : DMA_GPU_DEVICE_IMPORTED; /* the second call */
}

static dma_gpu_kind_t known_kind(uint64_t addr, const cuda_attributes_t *attributes)
{
    const cuda_known_t *k = attributes->id ? find_known(attributes->id) : NULL;
    dma_gpu_kind_t kind;

    if (k) {
        return k->kind;
    }
    dma_gpu_guard_detect(&dma_cuda_guard); /* after a reset all memory is new, so a reset is detected here */
    kind = kind_of(addr, attributes);
    if (attributes->id) {
        add_known(attributes->id, kind);
    }
    return kind;
}

/* Whether the error means that CUDA was never initialized or has shut down, so that there is no device memory. Any
 * other error leaves the kind unknown. */
static bool no_device_memory(cuda_error_t error)
{
    return error == CUDA_NOT_INITIALIZED || error == CUDA_DEINITIALIZED || error == CUDA_NO_DEVICE ||
           error == CUDA_INVALID_CONTEXT || error == CUDA_CONTEXT_DESTROYED;
}

static dma_status_t query(uint64_t addr, dma_gpu_memory_t *memory)
{
    cuda_attributes_t attributes;
    cuda_error_t error = get_attributes(addr, &attributes);

    if (error != CUDA_DONE && !no_device_memory(error)) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_UNKNOWN, .device = -1, .device_addr = addr};
        dma_cuda_status(error, "pointer_get_attributes");
        return DMA_OK;
    }
    if (error != CUDA_DONE || attributes.type == 0) {
        *memory = (dma_gpu_memory_t){.kind = DMA_GPU_HOST, .device = -1, .device_addr = addr};
        return DMA_OK;
    }
    *memory = (dma_gpu_memory_t){
        .kind = known_kind(addr, &attributes),
        .device = (int)(int32_t)attributes.ordinal,
        .base = attributes.start,
        .size = attributes.size,
        .buffer_id = attributes.id,
        .device_addr = attributes.device_addr ? attributes.device_addr : addr,
    };
    return DMA_OK;
}

/*
 * A synchronous copy from pageable host memory may return before its bytes are in device memory, and a copy inside a
 * device returns at once. Our copies are not ordered after such a copy: they would send what was there before, and a
 * late copy into a receive buffer would overwrite what has arrived. With the attribute SYNC_MEMOPS, synchronous copies
 * and sets that touch the allocation wait until they are complete. Setting it waits for those that are in progress.
 *
 * The driver may refuse it for memory of a pool, mapped virtually, or imported. That is no error of the call. Of virtually
 * mapped memory that is shared, each part is an allocation.
 */
static void make_copies_wait(const dma_gpu_memory_t *memory)
{
    uint64_t at = memory->mapped ? memory->base : memory->device_addr;
    dma_gpu_mapping_t part;
    unsigned on = 1;

    do {
        (void)dma_cuda.pointer_set_attribute(&on, CUDA_ATTRIBUTE_SYNC_MEMOPS, at);
        at = memory->mapped && dma_cuda_mapping(at, &part) == DMA_OK ? part.base + part.size : UINT64_MAX;
    } while (at - memory->base < memory->size);
}

static void adopt(const dma_gpu_memory_t *memory)
{
    cuda_known_t *k = memory->buffer_id ? find_known(memory->buffer_id) : NULL;
    dma_gpu_scope_t scope;

    if (!memory->buffer_id || (k && k->adopted) || dma_cuda_enter(memory->device, &scope) != DMA_OK) {
        return;
    }
    make_copies_wait(memory);
    dma_cuda_leave(&scope);
    k = k ? k : add_known(memory->buffer_id, memory->kind);
    k->adopted = true;
}

void dma_cuda_fill_queries(dma_gpu_runtime_t *table)
{
    table->query = query;
    table->adopt = dma_cuda.pointer_set_attribute ? adopt : NULL;
}
