/*
 * The rocr provider: DMA queues from ROCr's public interface (rocr_queue.h). Other memory comes from its pools.
 *
 * Each queue is made on the engine with a given number. For a queue whose engine the driver would pick, the engines of its kind
 * are tried in turn, because ROCr's own turn is over all engines, and those that face the host do not serve links.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/queues/provider.h"
#include "engine/sdma/queues/rocr_queue.h"

typedef struct rocr_provider {
    dma_provider_t base;
    dma_rocr_t rocr;
    dma_rocr_queues_t queues;
    dma_rocr_pool_t pool;
    uint32_t host_engines, xgmi_engines;
    uint32_t turn; /* of engines that nobody has named */
} rocr_provider_t;

static rocr_provider_t *rocr_of(dma_provider_t *provider)
{
    return (rocr_provider_t *)provider;
}

static bool is_new_enough(const dma_rocr_queues_t *queues)
{
    uint16_t major = 0, minor = 0;

    return queues->system_info(DMA_ROCR_SYSTEM_EXT_MAJOR, &major) == DMA_ROCR_SUCCESS &&
           queues->system_info(DMA_ROCR_SYSTEM_EXT_MINOR, &minor) == DMA_ROCR_SUCCESS &&
           major == DMA_ROCR_QUEUES_MAJOR && minor >= DMA_ROCR_QUEUES_MINOR;
}

static dma_status_t rocr_open(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    rocr_provider_t *r = calloc(1, sizeof(*r));
    const char *reason = "no memory";

    if (!r) {
        goto refuse;
    }
    if (dma_rocr_find(&r->rocr, &reason) != DMA_OK || dma_rocr_queues_find(&r->queues, &reason) != DMA_OK ||
        dma_rocr_find_pool(&r->rocr, &gpu->address, &r->pool, &reason) != DMA_OK) {
        goto free_provider;
    }
    if (!is_new_enough(&r->queues)) {
        reason = "this version of ROCr does not show the pointers of DMA queues";
        goto free_provider;
    }
    r->base = (dma_provider_t){.ops = &dma_provider_rocr, .names_engines = true};
    r->host_engines = gpu->host_engines;
    r->xgmi_engines = gpu->xgmi_engines;
    *provider = &r->base;
    return DMA_OK;

free_provider:
    free(r);
refuse:
    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s", reason);
    return DMA_UNSUPPORTED;
}

static void rocr_close(dma_provider_t *provider)
{
    free(rocr_of(provider));
}

static void *rocr_alloc(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr)
{
    rocr_provider_t *r = rocr_of(provider);
    void *memory = dma_rocr_alloc(&r->rocr, &r->pool, bytes);

    *device_addr = (uint64_t)(uintptr_t)memory;
    return memory;
}

static void rocr_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    (void)bytes;
    rocr_of(provider)->rocr.pool_free(memory);
}

/* A thread of ROCr's calls this; others poll the word. */
static void on_error(uint32_t status, dma_rocr_queue_t *queue, void *data)
{
    (void)queue;
    __atomic_store_n((int64_t *)data, (int64_t)status, __ATOMIC_RELEASE);
}

static const char *refusal_text(uint32_t status)
{
    switch (status) {
    case DMA_ROCR_INVALID_ARGUMENT:
        return "ROCr does not know the engine";
    case DMA_ROCR_INVALID_CREATION:
        return "the kernel driver cannot make queues on a given engine";
    case DMA_ROCR_OUT_OF_RESOURCES:
        return "no queue is free on the engine";
    default:
        return "ROCr makes no queue";
    }
}

static void *address_of(const rocr_provider_t *r, dma_rocr_queue_t *queue, uint32_t what)
{
    uint64_t address = 0;

    if (r->queues.info(queue, what, &address) != DMA_ROCR_SUCCESS || address % sizeof(uint64_t)) {
        return NULL;
    }
    return (void *)(uintptr_t)address;
}

/* What ROCr has made, in our terms. Returns what is wrong with it, or NULL. */
static const char *describe(const rocr_provider_t *r, const dma_rocr_queue_desc_t *desc, dma_provider_queue_t *queue)
{
    dma_rocr_queue_t *made = desc->queue;
    uint32_t engine = ~desc->engine;

    *queue = (dma_provider_queue_t){
        .id = made->id,
        .ring = made->ring,
        .ring_bytes = desc->bytes,
        .read_ptr = address_of(r, made, DMA_ROCR_QUEUE_READ_PTR),
        .write_ptr = address_of(r, made, DMA_ROCR_QUEUE_WRITE_PTR),
        .error = desc->on_error_data,
        .handle = (uintptr_t)made,
    };
    if (r->queues.info(made, DMA_ROCR_QUEUE_ENGINE_ID, &engine) != DMA_ROCR_SUCCESS || engine != desc->engine) {
        return "ROCr has made a queue on another engine";
    }
    if (!made->ring || made->bytes != desc->bytes || !queue->read_ptr || !queue->write_ptr) {
        return "ROCr does not show the ring or the pointers of the queue";
    }
    if (!made->doorbell || made->doorbell->kind != DMA_ROCR_SIGNAL_DOORBELL || !made->doorbell->doorbell) {
        return "the queue has no doorbell of hardware";
    }
    queue->doorbell = made->doorbell->doorbell;
    return NULL;
}

/* Creates a queue on one engine. Returns the status of ROCr's call. */
static uint32_t create_on(const rocr_provider_t *r, uint32_t engine, uint64_t bytes, dma_provider_queue_t *queue,
                          const char **reason)
{
    int64_t *error = calloc(1, sizeof(*error));
    dma_rocr_queue_desc_t desc = {
        .version = DMA_ROCR_QUEUE_VERSION,
        .engine_type = DMA_ROCR_QUEUE_SDMA,
        .bytes = (uint32_t)bytes,
        .priority = DMA_ROCR_QUEUE_PRIORITY_NORMAL,
        .on_error = on_error,
        .on_error_data = error,
        .engine = engine,
    };
    uint32_t status;

    if (!error) {
        *reason = "no memory";
        return DMA_ROCR_ERROR;
    }
    status = r->queues.create(r->pool.gpu, &desc, 1);
    if (status != DMA_ROCR_SUCCESS || !desc.queue) {
        status = status != DMA_ROCR_SUCCESS ? status : DMA_ROCR_ERROR;
        *reason = refusal_text(status);
        goto free_error;
    }
    if ((*reason = describe(r, &desc, queue))) {
        status = DMA_ROCR_ERROR;
        goto destroy_queue;
    }
    memset(queue->ring, 0, bytes); /* ROCr does not promise it */
    return DMA_ROCR_SUCCESS;

destroy_queue:
    r->queues.destroy(desc.queue);
free_error:
    free(error);
    return status;
}

static dma_status_t rocr_create(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                                dma_provider_queue_t *queue, const char **reason)
{
    rocr_provider_t *r = rocr_of(provider);
    uint32_t first = kind == DMA_MAP_XGMI ? r->host_engines : 0;
    uint32_t count = kind == DMA_MAP_XGMI ? r->xgmi_engines : r->host_engines;
    uint32_t status = DMA_ROCR_ERROR;

    if (kind == DMA_MAP_ENGINE) {
        return create_on(r, engine, bytes, queue, reason) == DMA_ROCR_SUCCESS ? DMA_OK : DMA_UNSUPPORTED;
    }
    *reason = "the device has no such engine";
    for (uint32_t i = 0; i < count && status != DMA_ROCR_SUCCESS && status != DMA_ROCR_INVALID_CREATION; i++) {
        status = create_on(r, first + r->turn++ % count, bytes, queue, reason);
    }
    return status == DMA_ROCR_SUCCESS ? DMA_OK : DMA_UNSUPPORTED;
}

static void rocr_destroy(dma_provider_t *provider, const dma_provider_queue_t *queue)
{
    /* The queue first: until then ROCr may report an error. */
    rocr_of(provider)->queues.destroy((dma_rocr_queue_t *)(uintptr_t)queue->handle);
    free((void *)(uintptr_t)queue->error);
}

const dma_provider_ops_t dma_provider_rocr = {
    .name = "rocr",
    .open = rocr_open,
    .close = rocr_close,
    .alloc = rocr_alloc,
    .free = rocr_free,
    .create = rocr_create,
    .destroy = rocr_destroy,
};
