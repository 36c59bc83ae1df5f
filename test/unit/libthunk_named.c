/* The provider "named" of libthunk.h: queues of the fake thunk, on engines by number. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/provider.h"
#include "libthunk.h"

typedef struct named {
    dma_provider_t base;
    dma_thunk_t thunk;
    uint32_t node;
} named_t;

static named_t *of(dma_provider_t *provider)
{
    return (named_t *)provider;
}

static dma_status_t named_open(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    const char *reason = "there is none";
    dma_rocr_gpu_t found;
    dma_rocr_t rocr;
    named_t *n;

    if (thunk_is_old() || dma_rocr_find(&rocr, &reason) != DMA_OK ||
        dma_rocr_find_gpu(&rocr, &gpu->address, &found, &reason) != DMA_OK) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s", reason);
        return DMA_UNSUPPORTED;
    }
    n = calloc(1, sizeof(*n));
    n->base = (dma_provider_t){.ops = &thunk_named, .names_engines = true};
    n->node = found.thunk_node;
    thunk_table(&n->thunk);
    n->thunk.open();
    *provider = &n->base;
    return DMA_OK;
}

static void named_close(dma_provider_t *provider)
{
    of(provider)->thunk.close();
    free(provider);
}

static void *named_alloc(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr)
{
    const dma_thunk_t *thunk = &of(provider)->thunk;
    const dma_thunk_flags_t flags = {DMA_THUNK_NON_PAGED | DMA_THUNK_HOST_ACCESS | DMA_THUNK_EXECUTE_ACCESS |
                                     DMA_THUNK_UNCACHED};
    void *memory;

    thunk->alloc(0, bytes, flags, &memory);
    thunk->map(memory, bytes, device_addr);
    *device_addr = (uintptr_t)memory;
    memset(memory, 0, bytes);
    return memory;
}

static void named_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    of(provider)->thunk.unmap(memory);
    of(provider)->thunk.free(memory, bytes);
}

static dma_status_t named_create(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                                 dma_provider_queue_t *queue, const char **reason)
{
    dma_thunk_queue_t made;
    uint64_t unused;
    void *ring = named_alloc(provider, bytes, &unused);

    if (thunk_make(of(provider)->node, kind, engine, ring, bytes, &made) != DMA_THUNK_SUCCESS) {
        named_free(provider, ring, bytes);
        *reason = "no queue is left";
        return DMA_UNSUPPORTED;
    }
    *queue = (dma_provider_queue_t){.id = made.id,
                                    .ring = ring,
                                    .ring_bytes = bytes,
                                    .read_ptr = made.read_ptr,
                                    .write_ptr = made.write_ptr,
                                    .doorbell = made.doorbell,
                                    .error = made.error};
    return DMA_OK;
}

static void named_destroy(dma_provider_t *provider, const dma_provider_queue_t *queue)
{
    of(provider)->thunk.destroy_queue(queue->id);
    named_free(provider, queue->ring, queue->ring_bytes);
}

const dma_provider_ops_t thunk_named = {
    .name = "named",
    .open = named_open,
    .close = named_close,
    .alloc = named_alloc,
    .free = named_free,
    .create = named_create,
    .destroy = named_destroy,
};
