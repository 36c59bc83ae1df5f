/*
 * One allocation of every kind that the vendor's library can make, as dma_gpu_classify reports it. The vendor's own calls
 * are looked up by name: both vendors have nearly the same calls.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime_check.h"

#define BYTES 65536

const char *check_kind_name(dma_gpu_kind_t kind)
{
    static const char *const names[] = {
        [DMA_GPU_HOST] = "host",
        [DMA_GPU_HOST_PINNED] = "host-pinned",
        [DMA_GPU_HOST_REGISTERED] = "host-registered",
        [DMA_GPU_DEVICE_PLAIN] = "device",
        [DMA_GPU_DEVICE_FINE] = "device-fine",
        [DMA_GPU_DEVICE_POOL] = "device-pool",
        [DMA_GPU_DEVICE_VMM] = "device-vmm",
        [DMA_GPU_MANAGED] = "managed",
        [DMA_GPU_DEVICE_IMPORTED] = "device-imported",
        [DMA_GPU_UNKNOWN] = "device-unknown",
    };

    return (unsigned)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

/* An allocator: 0 for success. */
typedef unsigned (*alloc_t)(void **ptr, size_t bytes);
typedef unsigned (*alloc_flags_t)(void **ptr, size_t bytes, unsigned flags);
typedef unsigned (*alloc_async_t)(void **ptr, size_t bytes, void *stream);

static uint64_t shown; /* plain memory, for the thread */

static void seen(const dma_gpu_runtime_t *rt, const char *what, void *ptr, uint64_t bytes, dma_gpu_kind_t kind,
                 bool exportable)
{
    dma_gpu_memory_t m;

    dma_gpu_classify(rt, (uintptr_t)ptr, bytes, &m);
    check_line(m.kind == kind && m.exportable == exportable, "query",
               "%s: %s on %d, base +%#lx of %#lx, id %lu, device address %s; %s", what, check_kind_name(m.kind),
               m.device, (uintptr_t)ptr - m.base, m.size, m.buffer_id,
               m.device_addr == (uintptr_t)ptr ? "the same" : "another",
               m.reason ? dma_reason_text(m.reason) : "exportable");
}

static void flagged(const dma_gpu_runtime_t *rt, const char *call, const char *what, unsigned flags,
                    dma_gpu_kind_t kind)
{
    alloc_flags_t alloc = (alloc_flags_t)check_vendor(call);
    void *ptr = NULL;

    if (alloc && check_line(alloc(&ptr, BYTES, flags) == 0, call, "flags %#x", flags)) {
        seen(rt, what, ptr, BYTES, kind, false);
        seen(rt, "  inside it", (char *)ptr + 100, 100, kind, false);
    }
}

static void plain(const dma_gpu_runtime_t *rt, const char *call)
{
    alloc_t alloc = (alloc_t)check_vendor(call);
    void *ptr = NULL;

    if (!alloc || !check_line(alloc(&ptr, BYTES + 100) == 0, call, "%s", "")) {
        return;
    }
    shown = (uintptr_t)ptr;
    seen(rt, "plain", ptr, BYTES, DMA_GPU_DEVICE_PLAIN, true);
    seen(rt, "again", ptr, BYTES + 100, DMA_GPU_DEVICE_PLAIN, true);
    seen(rt, "interior", (char *)ptr + 101, 100, DMA_GPU_DEVICE_PLAIN, true);
    seen(rt, "beyond its end", (char *)ptr + BYTES, 101, DMA_GPU_DEVICE_PLAIN, false);
    seen(rt, "nothing of it", ptr, 0, DMA_GPU_DEVICE_PLAIN, true);
}

/* In the order of the default stream, because our own streams are not handles of the driver. */
static void pooled(const dma_gpu_runtime_t *rt)
{
    alloc_async_t alloc = (alloc_async_t)check_vendor("cuMemAllocAsync");
    void *ptr = NULL;

    if (alloc && check_line(alloc(&ptr, BYTES, NULL) == 0, "cuMemAllocAsync", "%s", "")) {
        seen(rt, "pool", ptr, BYTES, DMA_GPU_DEVICE_POOL, false);
    }
}

/* Both vendors' structures for it look like this. */
typedef struct location {
    int type, id;
} location_t;

typedef struct properties {
    int pinned, handles;
    location_t where;
    void *none;
    unsigned char flags[8];
} properties_t;

typedef struct access {
    location_t where;
    int flags;
} access_t;

static void *vendor_call(const char *prefix, const char *name)
{
    char full[64];

    snprintf(full, sizeof(full), "%s%s", prefix, name);
    return check_vendor(full);
}

static void mapped(const dma_gpu_runtime_t *rt, const char *prefix, int device)
{
    unsigned (*create)(uint64_t *, size_t, const properties_t *, unsigned long long) =
        (unsigned (*)(uint64_t *, size_t, const properties_t *, unsigned long long))vendor_call(prefix, "MemCreate");
    unsigned (*reserve)(void **, size_t, size_t, void *, unsigned long long) =
        (unsigned (*)(void **, size_t, size_t, void *, unsigned long long))vendor_call(prefix, "MemAddressReserve");
    unsigned (*map)(void *, size_t, size_t, uint64_t, unsigned long long) =
        (unsigned (*)(void *, size_t, size_t, uint64_t, unsigned long long))vendor_call(prefix, "MemMap");
    unsigned (*allow)(void *, size_t, const access_t *, size_t) =
        (unsigned (*)(void *, size_t, const access_t *, size_t))vendor_call(prefix, "MemSetAccess");
    properties_t properties = {.pinned = 1, .handles = 1, .where = {1, device}};
    access_t access = {{1, device}, 3};
    size_t bytes = 2u << 20;
    dma_gpu_mapping_t mapping;
    uint64_t handle;
    void *ptr = NULL;
    bool shared;

    if (!create || !reserve || !map || !allow || create(&handle, bytes, &properties, 0) != 0 ||
        reserve(&ptr, bytes, 0, NULL, 0) != 0 || map(ptr, bytes, 0, handle, 0) != 0 ||
        allow(ptr, bytes, &access, 1) != 0) {
        check_skip("vmm", "the library makes none");
        return;
    }
    shared = rt->mapping && rt->mapping((uintptr_t)ptr, &mapping) == DMA_OK && mapping.id;
    if (shared) {
        check_line(mapping.base == (uintptr_t)ptr && mapping.size == bytes && mapping.shareable, "mapping",
                   "at %#lx, %#lx bytes, id %#lx", mapping.base, mapping.size, mapping.id);
    }
    seen(rt, "virtually mapped", ptr, BYTES, DMA_GPU_DEVICE_VMM, shared);
    seen(rt, "  inside it", (char *)ptr + 5000, 100, DMA_GPU_DEVICE_VMM, shared);
}

static void registered(const dma_gpu_runtime_t *rt)
{
    /* CUDA's driver gives the same answer for memory that it has allocated */
    dma_gpu_kind_t kind = strcmp(rt->name, "cuda") == 0 ? DMA_GPU_HOST_PINNED : DMA_GPU_HOST_REGISTERED;
    void *ptr = aligned_alloc(4096, BYTES);
    uint64_t at;

    seen(rt, "malloc", ptr, BYTES, DMA_GPU_HOST, false);
    if (check_line(rt->host_register(ptr, BYTES, &at) == DMA_OK, "host_register", "%s", "")) {
        seen(rt, "registered", ptr, BYTES, kind, false);
        seen(rt, "  inside it", (char *)ptr + 5000, 100, kind, false);
        rt->host_unregister(ptr);
        seen(rt, "no longer", ptr, BYTES, DMA_GPU_HOST, false);
    }
    free(ptr);
}

/* Freed, and most likely allocated again at the same address: only the id can show it. */
static void reused(const dma_gpu_runtime_t *rt)
{
    dma_gpu_memory_t before, after;
    uint64_t a, b;

    if (rt->alloc(3u << 20, &a) != DMA_OK) {
        return;
    }
    dma_gpu_classify(rt, a, 100, &before);
    rt->free(a);
    dma_gpu_classify(rt, a, 100, &after);
    check_line(after.kind == DMA_GPU_HOST, "query", "freed: %s", check_kind_name(after.kind));
    if (rt->alloc(3u << 20, &b) != DMA_OK) {
        return;
    }
    dma_gpu_classify(rt, b, 100, &after);
    check_line(a != b || before.buffer_id != after.buffer_id, "query", "allocated again %s: id %lu, then %lu",
               a == b ? "at the same address" : "elsewhere", before.buffer_id, after.buffer_id);
    rt->free(b);
}

static void cost(const dma_gpu_runtime_t *rt, const char *what, uint64_t addr)
{
    struct timespec a, b;
    dma_gpu_memory_t m;
    int n = 100000;

    clock_gettime(CLOCK_MONOTONIC, &a);
    for (int i = 0; i < n; i++) {
        dma_gpu_classify(dma_gpu_runtime_loaded(), addr, 100, &m);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    check_line(rt == dma_gpu_runtime_loaded(), "query", "%s: %.0f ns", what,
               ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n);
}

void check_kinds(const dma_gpu_runtime_t *rt, int device)
{
    void *host = malloc(4096);

    registered(rt);
    reused(rt);
    if (strcmp(rt->name, "hip") == 0) {
        plain(rt, "hipMalloc");
        flagged(rt, "hipHostMalloc", "pinned", 0, DMA_GPU_HOST_PINNED);
        flagged(rt, "hipMallocManaged", "managed", 1, DMA_GPU_MANAGED);
        flagged(rt, "hipExtMallocWithFlags", "fine-grained", 1, DMA_GPU_DEVICE_FINE);
        check_skip("hipMallocAsync", "crashes in HIP 5.2.3, and HIP does not tell a pool's memory from plain");
    } else {
        plain(rt, "cuMemAlloc_v2");
        flagged(rt, "cuMemHostAlloc", "pinned", 0, DMA_GPU_HOST_PINNED);
        flagged(rt, "cuMemAllocManaged", "managed", 1, DMA_GPU_MANAGED);
        pooled(rt);
    }
    mapped(rt, strcmp(rt->name, "hip") == 0 ? "hip" : "cu", device);
    cost(rt, "plain", shown);
    cost(rt, "malloc", (uintptr_t)host);
    free(host);
}

void check_kinds_of_thread(const dma_gpu_runtime_t *rt)
{
    seen(rt, "plain, in a thread without a context", (void *)(uintptr_t)shown, 100, DMA_GPU_DEVICE_PLAIN, true);
}

void check_reset(const dma_gpu_runtime_t *rt, int device)
{
    bool hip = strcmp(rt->name, "hip") == 0;
    unsigned (*hip_reset)(void) = hip ? (unsigned (*)(void))check_vendor("hipDeviceReset") : NULL;
    unsigned (*cuda_reset)(int) = hip ? NULL : (unsigned (*)(int))check_vendor("cuDevicePrimaryCtxReset_v2");
    dma_gpu_scope_t scope;
    dma_gpu_memory_t m;
    dma_gpu_stream_t *stream = NULL;
    uint64_t before = 0;

    if (rt->enter(device, &scope) != DMA_OK || rt->stream_create(&stream) || rt->alloc(BYTES, &before) ||
        (hip_reset ? hip_reset() != 0 : !cuda_reset || cuda_reset(device) != 0)) {
        check_skip("reset", "refused");
        return;
    }
    rt->leave(&scope);
    dma_gpu_classify(rt, shown, 100, &m);
    check_line(m.kind == DMA_GPU_HOST, "query", "after a reset: %s", check_kind_name(m.kind));
    check_line(rt->enter_to_release(device, &scope) != DMA_OK && rt->is_lost(device), "enter_to_release",
               "after a reset: %s", dma_gpu_error());
    check_line(rt->enter(device, &scope) == DMA_ERR_ENGINE, "enter", "after a reset: %s", dma_gpu_error());
}
