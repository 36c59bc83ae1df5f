/*
 * The thunk provider. The thunk owns the pointers and the doorbell of an SDMA queue. Memory comes from its allocator,
 * as the uncached, executable kind that it uses for its own queues.
 *
 * The thunk counts how often it was opened. ROCr has opened it before, so the expected result is "already opened", and
 * one close balances the count. If ROCr has not opened the library, it is not the instance that ROCr uses: another
 * package has loaded it, and ROCr contains its own. Two instances in one process do not know each other's mappings, so
 * this one is not used.
 *
 * The number of the GPU in calls of the thunk comes from ROCr, which has it from the thunk (rocr.h).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sdma/provider.h"
#include "engine/sdma/thunk.h"

#define TIME_SLICE 100 /* percent of the time slice of a queue */

typedef struct thunk_provider {
    dma_provider_t base;
    dma_thunk_t thunk;
    uint32_t node; /* the thunk's number of the GPU */
} thunk_provider_t;

static thunk_provider_t *of(dma_provider_t *provider)
{
    return (thunk_provider_t *)provider;
}

static dma_status_t refuse(char *why, const char *reason)
{
    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s", reason);
    return DMA_UNSUPPORTED;
}

static dma_status_t thunk_open(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    thunk_provider_t *t = calloc(1, sizeof(*t));
    dma_rocr_gpu_t found;
    const char *reason;
    dma_rocr_t rocr;
    uint32_t rc;

    if (!t) {
        return refuse(why, "no memory");
    }
    if (dma_thunk_find(&t->thunk, &reason) != DMA_OK || dma_rocr_find(&rocr, &reason) != DMA_OK ||
        dma_rocr_find_gpu(&rocr, &gpu->address, &found, &reason) != DMA_OK) {
        free(t);
        return refuse(why, reason);
    }
    rc = t->thunk.open();
    if (rc != DMA_THUNK_ALREADY_OPENED) {
        if (rc == DMA_THUNK_SUCCESS) {
            t->thunk.close();
        }
        free(t);
        return refuse(why, "ROCr does not use the libhsakmt that is in this process");
    }
    t->base = (dma_provider_t){.ops = &dma_provider_thunk, .names_engines = false};
    t->node = found.thunk_node;
    *provider = &t->base;
    return DMA_OK;
}

static void thunk_close(dma_provider_t *provider)
{
    of(provider)->thunk.close();
    free(provider);
}

static void *thunk_alloc(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr)
{
    const dma_thunk_t *thunk = &of(provider)->thunk;
    dma_thunk_flags_t flags = {DMA_THUNK_NON_PAGED | DMA_THUNK_HOST_ACCESS | DMA_THUNK_EXECUTE_ACCESS |
                               DMA_THUNK_UNCACHED};
    void *memory = NULL;

    if (thunk->alloc(0, bytes, flags, &memory) != DMA_THUNK_SUCCESS) {
        return NULL;
    }
    if (thunk->map(memory, bytes, device_addr) != DMA_THUNK_SUCCESS) {
        thunk->free(memory, bytes);
        return NULL;
    }
    if (!*device_addr) {
        *device_addr = (uint64_t)(uintptr_t)memory; /* same address for CPU and GPU */
    }
    memset(memory, 0, bytes);
    return memory;
}

static void thunk_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    of(provider)->thunk.unmap(memory);
    of(provider)->thunk.free(memory, bytes);
}

static dma_status_t thunk_create(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                                 dma_provider_queue_t *queue, const char **reason)
{
    const thunk_provider_t *t = of(provider);
    uint64_t unused; /* the address is the same */
    void *ring = thunk_alloc(provider, bytes, &unused);
    dma_thunk_queue_t made = {0};

    (void)engine; /* cannot be named */
    if (!ring) {
        *reason = "no memory";
        return DMA_UNSUPPORTED;
    }
    if (t->thunk.create_queue(t->node, kind == DMA_MAP_XGMI ? DMA_THUNK_QUEUE_SDMA_XGMI : DMA_THUNK_QUEUE_SDMA,
                              TIME_SLICE, DMA_THUNK_PRIORITY_MAXIMUM, ring, bytes, NULL, &made) != DMA_THUNK_SUCCESS) {
        thunk_free(provider, ring, bytes);
        *reason = "libhsakmt makes no queue"; /* it does not return the kernel's reason */
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

static void thunk_destroy(dma_provider_t *provider, const dma_provider_queue_t *queue)
{
    of(provider)->thunk.destroy_queue(queue->id);
    thunk_free(provider, queue->ring, queue->ring_bytes);
}

const dma_provider_ops_t dma_provider_thunk = {
    .name = "thunk",
    .open = thunk_open,
    .close = thunk_close,
    .alloc = thunk_alloc,
    .free = thunk_free,
    .create = thunk_create,
    .destroy = thunk_destroy,
};
