/* The kfd provider: see kfd.h. */
#include "engine/sdma/queues/kfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/sdma/node/topology.h"

/* The read pointer has a cache line of its own in the page of pointers, because the engine writes it. */
#define READ_OFFSET 64

/* Memory of a ring: pages of the process that the GPU may read, write and execute, and does not keep in a cache. */
#define RING_FLAGS                                                                                                     \
    (DMA_KFD_MEMORY_USERPTR | DMA_KFD_MEMORY_WRITABLE | DMA_KFD_MEMORY_EXECUTABLE | DMA_KFD_MEMORY_COHERENT)

typedef struct kfd_provider {
    dma_provider_t base;
    const dma_kfd_sys_t *sys;
    dma_rocr_t rocr;
    dma_rocr_pool_t pool;
    uint32_t gpu_id;
    int fd;
    char *doorbells; /* of this process on the GPU, mapped with the first queue; NULL before */
    size_t page;
} kfd_provider_t;

static kfd_provider_t *kfd_of(dma_provider_t *provider)
{
    return (kfd_provider_t *)provider;
}

/* The kernel ends a call early for a signal (EINTR) or a temporary shortage (EAGAIN). Then the call is repeated. */
static int kfd_ioctl(const kfd_provider_t *k, unsigned long request, void *argument)
{
    int rc;

    do {
        rc = k->sys->ioctl(k->fd, request, argument);
    } while (rc == -1 && (errno == EINTR || errno == EAGAIN));
    return rc;
}

dma_status_t dma_kfd_open(const dma_kfd_sys_t *sys, const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    kfd_provider_t *k = calloc(1, sizeof(*k));
    dma_kfd_version_t version = {0};
    const char *reason = "no memory";

    if (!k) {
        goto refuse;
    }
    k->sys = sys;
    /* ROCr first: if it does not run, there is no GPU address space, and the driver's file is not opened. */
    if (sys->find_rocr(&k->rocr, &reason) != DMA_OK ||
        dma_rocr_find_pool(&k->rocr, &gpu->address, &k->pool, &reason) != DMA_OK) {
        goto free_provider;
    }
    k->fd = sys->open(DMA_TOPO_DEVICE, O_RDWR | O_CLOEXEC);
    if (k->fd < 0) {
        snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s: %s", "the driver's file cannot be opened", strerror(errno));
        free(k);
        return DMA_UNSUPPORTED;
    }
    if (kfd_ioctl(k, DMA_KFD_GET_VERSION, &version) != 0 || version.major != DMA_KFD_MAJOR) {
        reason = "its interface is not the one we know";
        goto close_file;
    }
    k->base = (dma_provider_t){.ops = &dma_provider_kfd, .names_engines = version.minor >= DMA_KFD_BY_ENG_MINOR};
    k->gpu_id = gpu->gpu_id;
    k->page = (size_t)sysconf(_SC_PAGESIZE);
    *provider = &k->base;
    return DMA_OK;

close_file:
    sys->close(k->fd);
free_provider:
    free(k);
refuse:
    snprintf(why, DMA_PROVIDER_WHY_BYTES, "%s", reason);
    return DMA_UNSUPPORTED;
}

static void kfd_close(dma_provider_t *provider)
{
    kfd_provider_t *k = kfd_of(provider);

    if (k->doorbells) {
        k->sys->munmap(k->doorbells, DMA_KFD_DOORBELL_BYTES);
    }
    k->sys->close(k->fd);
    free(k);
}

static void *kfd_alloc(dma_provider_t *provider, uint64_t bytes, uint64_t *device_addr)
{
    kfd_provider_t *k = kfd_of(provider);
    void *memory = dma_rocr_alloc(&k->rocr, &k->pool, bytes);

    *device_addr = (uint64_t)(uintptr_t)memory;
    return memory;
}

static void kfd_free(dma_provider_t *provider, void *memory, uint64_t bytes)
{
    (void)bytes;
    kfd_of(provider)->rocr.pool_free(memory);
}

static const char *refusal_text(int error)
{
    switch (error) {
    case ENOMEM:
        return "no queue is free on the engine";
    case EPERM:
        return "the device has all the queues it may have";
    case EINVAL:
        return "the kernel does not accept the engine or the memory";
    case ESRCH:
    case ENODEV:
        return "the kernel does not let this process use the device";
    default:
        return "the kernel makes no queue";
    }
}

static uint32_t type_of(dma_map_kind_t kind)
{
    switch (kind) {
    case DMA_MAP_ENGINE:
        return DMA_KFD_QUEUE_SDMA_BY_ENG;
    case DMA_MAP_XGMI:
        return DMA_KFD_QUEUE_SDMA_XGMI;
    default:
        return DMA_KFD_QUEUE_SDMA;
    }
}

static void destroy_queue(const kfd_provider_t *k, uint64_t id)
{
    dma_kfd_destroy_t args = {.queue_id = (uint32_t)id};

    kfd_ioctl(k, DMA_KFD_DESTROY_QUEUE, &args);
}

/* All queues of the GPU have their doorbells in one range. The kernel returns its offset with the first queue. */
static bool map_doorbells(kfd_provider_t *k, uint64_t offset)
{
    void *at;

    if (k->doorbells) {
        return true;
    }
    at = k->sys->mmap(DMA_KFD_DOORBELL_BYTES, k->fd, offset & ~(uint64_t)(DMA_KFD_DOORBELL_BYTES - 1));
    if (at == MAP_FAILED) {
        return false;
    }
    k->doorbells = at;
    return true;
}

/* A forked child does not get the pages. If it did, fork would protect the parent's against writing, and the parent's next
 * packet would go to a copy of the page. The GPU would not read stale packets, because the kernel notices both, but it would
 * stop and restart all queues of the process each time. The thunk does the same with its memory. */
static void *map_pages(const kfd_provider_t *k, uint64_t bytes)
{
    void *at = k->sys->mmap(bytes, -1, 0);

    if (at == MAP_FAILED) {
        return NULL;
    }
    madvise(at, bytes, MADV_DONTFORK);
    return at;
}

/* Pages that the GPU still has are left to the end of the process. */
static void free_ring(const kfd_provider_t *k, void *ring, uint64_t bytes, uint64_t handle)
{
    dma_kfd_free_t args = {.handle = handle};

    if (kfd_ioctl(k, DMA_KFD_FREE, &args) == 0) {
        k->sys->munmap(ring, bytes);
    }
}

static void unmap_ring(const kfd_provider_t *k, uint64_t handle)
{
    dma_kfd_map_t args = {.handle = handle, .gpu_ids = (uintptr_t)&k->gpu_id, .count = 1};

    kfd_ioctl(k, DMA_KFD_UNMAP, &args);
}

/* Makes executable memory of the GPU from zeroed pages of ours, at the same address. */
static void *make_ring(const kfd_provider_t *k, uint64_t bytes, uint64_t *handle, const char **reason)
{
    void *ring = map_pages(k, bytes);
    dma_kfd_alloc_t alloc = {
        .address = (uintptr_t)ring,
        .bytes = bytes,
        .pages = (uintptr_t)ring,
        .gpu_id = k->gpu_id,
        .flags = RING_FLAGS,
    };
    dma_kfd_map_t map = {.gpu_ids = (uintptr_t)&k->gpu_id, .count = 1};

    if (!ring) {
        *reason = "no memory";
        return NULL;
    }
    if (kfd_ioctl(k, DMA_KFD_ALLOC, &alloc) != 0) {
        *reason = "the kernel does not accept memory for a ring";
        goto unmap_pages;
    }
    map.handle = *handle = alloc.handle;
    if (kfd_ioctl(k, DMA_KFD_MAP, &map) != 0) {
        *reason = "the kernel does not map memory for a ring";
        goto free_memory;
    }
    return ring;

free_memory:
    free_ring(k, ring, bytes, *handle);
    return NULL;
unmap_pages:
    k->sys->munmap(ring, bytes);
    return NULL;
}

static void drop_ring(const kfd_provider_t *k, void *ring, uint64_t bytes, uint64_t handle)
{
    unmap_ring(k, handle);
    free_ring(k, ring, bytes, handle);
}

static dma_status_t kfd_create(dma_provider_t *provider, dma_map_kind_t kind, uint32_t engine, uint64_t bytes,
                               dma_provider_queue_t *queue, const char **reason)
{
    kfd_provider_t *k = kfd_of(provider);
    dma_kfd_create_t args = {
        .ring_bytes = (uint32_t)bytes,
        .gpu_id = k->gpu_id,
        .type = type_of(kind),
        .percent = DMA_KFD_PERCENT,
        .priority = DMA_KFD_PRIORITY,
        .engine = kind == DMA_MAP_ENGINE ? engine : 0,
    };
    uint64_t handle;
    char *pointers;
    void *ring;

    if (!(ring = make_ring(k, bytes, &handle, reason))) {
        return DMA_UNSUPPORTED;
    }
    if (!(pointers = dma_rocr_alloc(&k->rocr, &k->pool, k->page))) {
        *reason = "no memory";
        goto drop_memory;
    }
    args.ring = (uintptr_t)ring;
    args.write_ptr = (uintptr_t)pointers;
    args.read_ptr = (uintptr_t)pointers + READ_OFFSET;
    if (kfd_ioctl(k, DMA_KFD_CREATE_QUEUE, &args) != 0) {
        *reason = refusal_text(errno);
        goto free_pointers;
    }
    if (!map_doorbells(k, args.doorbell_offset)) {
        *reason = "the doorbells cannot be mapped";
        goto drop_queue;
    }
    *queue = (dma_provider_queue_t){
        .id = args.queue_id,
        .ring = ring,
        .ring_bytes = bytes,
        .read_ptr = (uint64_t *)(pointers + READ_OFFSET),
        .write_ptr = (uint64_t *)pointers,
        .doorbell = (uint64_t *)(k->doorbells + (args.doorbell_offset & (DMA_KFD_DOORBELL_BYTES - 1))),
        .pointers = pointers,
        .handle = handle,
    };
    return DMA_OK;

drop_queue:
    destroy_queue(k, args.queue_id);
free_pointers:
    k->rocr.pool_free(pointers);
drop_memory:
    drop_ring(k, ring, bytes, handle);
    return DMA_UNSUPPORTED;
}

static void kfd_destroy(dma_provider_t *provider, const dma_provider_queue_t *queue)
{
    kfd_provider_t *k = kfd_of(provider);

    /* The queue first: if memory of an existing queue is freed, the driver stops all queues of the process. */
    destroy_queue(k, queue->id);
    k->rocr.pool_free(queue->pointers);
    drop_ring(k, queue->ring, queue->ring_bytes, queue->handle);
}

static int real_open(const char *path, int flags)
{
    return open(path, flags);
}

static int real_ioctl(int fd, unsigned long request, void *argument)
{
    return ioctl(fd, request, argument);
}

static void *real_mmap(size_t bytes, int fd, uint64_t offset)
{
    int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, (off_t)offset);
}

static const dma_kfd_sys_t sys = {
    .open = real_open,
    .ioctl = real_ioctl,
    .mmap = real_mmap,
    .munmap = munmap,
    .close = close,
    .find_rocr = dma_rocr_find,
};

static dma_status_t kfd_open(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    return dma_kfd_open(&sys, gpu, provider, why);
}

const dma_provider_ops_t dma_provider_kfd = {
    .name = "kfd",
    .open = kfd_open,
    .close = kfd_close,
    .alloc = kfd_alloc,
    .free = kfd_free,
    .create = kfd_create,
    .destroy = kfd_destroy,
};
