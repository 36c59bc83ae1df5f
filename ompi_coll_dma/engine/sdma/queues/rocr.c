/* GPUs and host memory of ROCr: see rocr.h; and where its DMA queues are: see rocr_queue.h. */
#include "engine/sdma/queues/rocr_queue.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "gpu/internal.h"

/* In the order of dma_rocr_t. */
static const dma_gpu_symbol_t symbols[] = {
    {"hsa_iterate_agents", true},
    {"hsa_agent_get_info", true},
    {"hsa_amd_agent_iterate_memory_pools", true},
    {"hsa_amd_memory_pool_get_info", true},
    {"hsa_amd_memory_pool_allocate", true},
    {"hsa_amd_memory_pool_free", true},
    {"hsa_amd_agents_allow_access", true},
    {"hsa_amd_register_system_event_handler", false},
};

_Static_assert(sizeof(symbols) / sizeof(symbols[0]) * sizeof(void *) == sizeof(dma_rocr_t), "one per function");

/* In the order of dma_rocr_queues_t. */
static const dma_gpu_symbol_t queue_symbols[] = {
    {"hsa_system_get_info", true},
    {"hsa_amd_queue_create", true},
    {"hsa_amd_queue_get_info", true},
    {"hsa_queue_destroy", true},
};

_Static_assert(sizeof(queue_symbols) / sizeof(queue_symbols[0]) * sizeof(void *) == sizeof(dma_rocr_queues_t),
               "one per function");

/* Fills a table. The reference to the library is kept: its functions are used until the process ends. */
static dma_status_t find(const dma_gpu_symbol_t *wanted, size_t n, void *calls, const char *lacks, const char **reason)
{
    /* Python packages contain the library without the version in its name. */
    static const char *const names[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so", NULL};
    void *library = dma_gpu_find_library(names);

    if (!library) {
        *reason = "ROCr is not loaded";
        return DMA_UNSUPPORTED;
    }
    if (!dma_gpu_find_symbols(library, wanted, n, calls)) {
        *reason = lacks;
        dlclose(library);
        return DMA_UNSUPPORTED;
    }
    return DMA_OK;
}

dma_status_t dma_rocr_find(dma_rocr_t *rocr, const char **reason)
{
    return find(symbols, sizeof(symbols) / sizeof(symbols[0]), rocr, "this version of ROCr lacks a function", reason);
}

dma_status_t dma_rocr_queues_find(dma_rocr_queues_t *queues, const char **reason)
{
    return find(queue_symbols, sizeof(queue_symbols) / sizeof(queue_symbols[0]), queues,
                "this version of ROCr makes no DMA queues", reason);
}

typedef struct search {
    const dma_rocr_t *rocr;
    dma_rocr_address_t address;
    dma_rocr_handle_t gpu;
    unsigned ngpus; /* that have this address */
    dma_rocr_handle_t cpu, pool;
    bool has_cpu, has_pool;
    bool kernarg; /* the pool found is meant for kernel arguments */
} search_t;

static bool is_at(const dma_rocr_t *rocr, dma_rocr_handle_t agent, const dma_rocr_address_t *address)
{
    dma_rocr_address_t found;

    return rocr->agent_info(agent, DMA_ROCR_AGENT_LOCATION, &found.location_id) == DMA_ROCR_SUCCESS &&
           rocr->agent_info(agent, DMA_ROCR_AGENT_DOMAIN, &found.domain) == DMA_ROCR_SUCCESS &&
           found.location_id == address->location_id && found.domain == address->domain;
}

static uint32_t visit_agent(dma_rocr_handle_t agent, void *data)
{
    search_t *s = data;
    uint32_t device;

    if (s->rocr->agent_info(agent, DMA_ROCR_AGENT_DEVICE, &device) != DMA_ROCR_SUCCESS) {
        return DMA_ROCR_SUCCESS;
    }
    if (device == DMA_ROCR_DEVICE_CPU && !s->has_cpu) {
        s->cpu = agent;
        s->has_cpu = true;
    }
    if (device == DMA_ROCR_DEVICE_GPU && is_at(s->rocr, agent, &s->address)) {
        s->gpu = agent;
        s->ngpus++;
    }
    return DMA_ROCR_SUCCESS;
}

/* Selects a fine-grained pool, preferably one that is not meant for kernel arguments. */
static uint32_t visit_pool(dma_rocr_handle_t pool, void *data)
{
    search_t *s = data;
    uint32_t segment, flags;
    bool allowed;

    if (s->rocr->pool_info(pool, DMA_ROCR_POOL_SEGMENT, &segment) != DMA_ROCR_SUCCESS ||
        segment != DMA_ROCR_SEGMENT_GLOBAL ||
        s->rocr->pool_info(pool, DMA_ROCR_POOL_ALLOWED, &allowed) != DMA_ROCR_SUCCESS || !allowed ||
        s->rocr->pool_info(pool, DMA_ROCR_POOL_FLAGS, &flags) != DMA_ROCR_SUCCESS || !(flags & DMA_ROCR_POOL_FINE)) {
        return DMA_ROCR_SUCCESS;
    }
    if (!s->has_pool || (s->kernarg && !(flags & DMA_ROCR_POOL_KERNARG))) {
        s->pool = pool;
        s->has_pool = true;
        s->kernarg = flags & DMA_ROCR_POOL_KERNARG;
    }
    return DMA_ROCR_SUCCESS;
}

static dma_status_t find_agents(search_t *s, const char **reason)
{
    if (s->rocr->iterate_agents(visit_agent, s) != DMA_ROCR_SUCCESS) {
        *reason = "ROCr does not run";
        return DMA_UNSUPPORTED;
    }
    if (s->ngpus != 1) {
        *reason = s->ngpus ? "ROCr shows several devices with this PCI address" : "ROCr does not show the device";
        return DMA_UNSUPPORTED;
    }
    return DMA_OK;
}

dma_status_t dma_rocr_find_gpu(const dma_rocr_t *rocr, const dma_rocr_address_t *address, dma_rocr_handle_t *agent,
                               const char **reason)
{
    search_t s = {.rocr = rocr, .address = *address};
    dma_status_t status = find_agents(&s, reason);

    if (status == DMA_OK) {
        *agent = s.gpu;
    }
    return status;
}

dma_status_t dma_rocr_find_pool(const dma_rocr_t *rocr, const dma_rocr_address_t *address, dma_rocr_pool_t *pool,
                                const char **reason)
{
    search_t s = {.rocr = rocr, .address = *address};
    dma_rocr_handle_t nearest = {0};
    dma_status_t status = find_agents(&s, reason);

    if (status != DMA_OK) {
        return status;
    }
    if (rocr->agent_info(s.gpu, DMA_ROCR_AGENT_NEAREST_CPU, &nearest) == DMA_ROCR_SUCCESS && nearest.handle) {
        s.cpu = nearest;
        s.has_cpu = true;
    }
    if (!s.has_cpu || rocr->iterate_pools(s.cpu, visit_pool, &s) != DMA_ROCR_SUCCESS || !s.has_pool) {
        *reason = "ROCr has no fine-grained host memory";
        return DMA_UNSUPPORTED;
    }
    *pool = (dma_rocr_pool_t){.gpu = s.gpu, .pool = s.pool};
    return DMA_OK;
}

void *dma_rocr_alloc(const dma_rocr_t *rocr, const dma_rocr_pool_t *pool, size_t bytes)
{
    void *memory = NULL;

    if (rocr->pool_allocate(pool->pool, bytes, 0, &memory) != DMA_ROCR_SUCCESS) {
        return NULL;
    }
    if (rocr->allow_access(1, &pool->gpu, NULL, memory) != DMA_ROCR_SUCCESS) {
        rocr->pool_free(memory);
        return NULL;
    }
    memset(memory, 0, bytes);
    return memory;
}
