/*
 * ROCr's DMA queues on the machine of libkfd_fake.h. The same kernel makes them: ROCr gets the ring and the pointers
 * from it, and names the engine, which the kernel must support.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "libkfd_fake_internal.h"

#define GPU         (10u + FAKE_NODE) /* the agent */
#define QUEUE_MINOR 17                /* the queue of the kernel */
#define PAGE        4096
#define READ        128 /* offsets of the pointers in their page */
#define ROCR_MINOR  31

typedef struct made {
    dma_rocr_queue_t queue; /* what the user sees */
    dma_rocr_signal_t signal;
    dma_rocr_on_error_t *on_error;
    void *data;
    uint32_t id, engine;
    uint64_t handle; /* of the ring */
    uint32_t bytes;
    char *pointers;
} made_t;

static dma_rocr_t rocr;
static const uint32_t gpu_id = FAKE_GPU_ID;

static uint32_t system_info(uint32_t what, void *value)
{
    if (fake_fails()) {
        return DMA_ROCR_ERROR;
    }
    ck_assert(what == DMA_ROCR_SYSTEM_EXT_MAJOR || what == DMA_ROCR_SYSTEM_EXT_MINOR);
    *(uint16_t *)value = what == DMA_ROCR_SYSTEM_EXT_MAJOR ? 1
                         : fake_options.rocr_minor         ? (uint16_t)fake_options.rocr_minor
                                                           : ROCR_MINOR;
    return DMA_ROCR_SUCCESS;
}

static bool is_zero(const void *at, size_t bytes)
{
    const unsigned char *byte = at;

    while (bytes > 0 && !byte[bytes - 1]) {
        bytes--;
    }
    return bytes == 0;
}

static bool is_valid(const dma_rocr_queue_desc_t *d)
{
    return d->version == 1 && d->flags == 0 && d->engine_type == 1 && is_zero(d->reserved_head, 3) && d->bytes &&
           !(d->bytes & (d->bytes - 1)) && d->priority <= 2 && d->engine < FAKE_ENGINES &&
           is_zero(d->reserved_engine, sizeof(d->reserved_engine)) && d->traffic_class == 0 && is_zero(d->reserved, 20);
}

/* Memory as the kernel requires it for a ring. It is not zeroed. */
static bool make_ring(made_t *m, uint32_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    dma_kfd_alloc_t alloc = {.address = (uintptr_t)at, .bytes = bytes, .pages = (uintptr_t)at, .gpu_id = gpu_id};
    dma_kfd_map_t map = {.gpu_ids = (uintptr_t)&gpu_id, .count = 1};

    ck_assert_ptr_ne(at, MAP_FAILED);
    alloc.flags =
        DMA_KFD_MEMORY_USERPTR | DMA_KFD_MEMORY_WRITABLE | DMA_KFD_MEMORY_EXECUTABLE | DMA_KFD_MEMORY_COHERENT;
    if (fake_kernel(DMA_KFD_ALLOC, &alloc)) {
        munmap(at, bytes);
        return false;
    }
    map.handle = m->handle = alloc.handle;
    ck_assert_int_eq(fake_kernel(DMA_KFD_MAP, &map), 0);
    memset(at, 0x5a, bytes);
    fake_counts.pages++;
    m->queue.ring = at;
    m->bytes = bytes;
    m->queue.bytes = fake_options.short_ring ? bytes / 2 : bytes;
    return true;
}

static void free_ring(made_t *m)
{
    dma_kfd_map_t map = {.handle = m->handle, .gpu_ids = (uintptr_t)&gpu_id, .count = 1};
    dma_kfd_free_t free = {.handle = m->handle};

    ck_assert_int_eq(fake_kernel(DMA_KFD_UNMAP, &map), 0);
    ck_assert_int_eq(fake_kernel(DMA_KFD_FREE, &free), 0);
    munmap(m->queue.ring, m->bytes);
    fake_counts.pages--;
}

static bool make_pointers(made_t *m)
{
    const dma_rocr_handle_t pool = {FAKE_POOL_FINE}, gpu = {GPU};
    void *page;

    if (rocr.pool_allocate(pool, PAGE, 0, &page) != DMA_ROCR_SUCCESS) {
        return false;
    }
    if (rocr.allow_access(1, &gpu, NULL, page) != DMA_ROCR_SUCCESS) {
        rocr.pool_free(page);
        return false;
    }
    memset(page, 0, PAGE);
    m->pointers = page;
    return true;
}

static bool make_queue(made_t *m)
{
    dma_kfd_create_t args = {.ring = (uintptr_t)m->queue.ring,
                             .write_ptr = (uintptr_t)m->pointers,
                             .read_ptr = (uintptr_t)m->pointers + READ,
                             .ring_bytes = m->bytes,
                             .gpu_id = gpu_id,
                             .type = DMA_KFD_QUEUE_SDMA_BY_ENG,
                             .percent = 100,
                             .engine = m->engine};

    if (fake_kernel(DMA_KFD_CREATE_QUEUE, &args)) {
        return false;
    }
    m->id = args.queue_id;
    m->signal.kind = fake_options.user_signal ? 1 : -1;
    m->signal.doorbell = fake_options.no_doorbell ? NULL : fake_doorbell(args.doorbell_offset);
    m->queue.doorbell = &m->signal;
    return true;
}

static uint32_t create(dma_rocr_handle_t agent, dma_rocr_queue_desc_t *desc, uint32_t n)
{
    uint32_t minor = fake_options.minor ? fake_options.minor : QUEUE_MINOR;
    made_t *m;

    ck_assert_uint_eq(agent.handle, GPU);
    ck_assert_uint_eq(n, 1);
    ck_assert_ptr_null(desc->queue);
    if (fake_fails()) {
        return DMA_ROCR_ERROR;
    }
    if (minor < QUEUE_MINOR) {
        return DMA_ROCR_INVALID_CREATION;
    }
    if (!is_valid(desc)) {
        return DMA_ROCR_INVALID_ARGUMENT;
    }
    m = calloc(1, sizeof(*m));
    *m = (made_t){.on_error = desc->on_error, .data = desc->on_error_data, .engine = desc->engine};
    if (!make_ring(m, desc->bytes)) {
        goto free_queue;
    }
    if (!make_pointers(m)) {
        goto free_ring;
    }
    if (!make_queue(m)) {
        goto free_pointers;
    }
    desc->queue = &m->queue;
    return DMA_ROCR_SUCCESS;

free_pointers:
    rocr.pool_free(m->pointers);
free_ring:
    free_ring(m);
free_queue:
    free(m);
    return DMA_ROCR_OUT_OF_RESOURCES;
}

static uint32_t info(dma_rocr_queue_t *queue, uint32_t what, void *value)
{
    made_t *m = (made_t *)queue;

    if (fake_fails()) {
        return DMA_ROCR_ERROR;
    }
    switch (what) {
    case DMA_ROCR_QUEUE_ENGINE_ID:
        *(uint32_t *)value = m->engine ^ (fake_options.other_engine ? 1 : 0);
        return DMA_ROCR_SUCCESS;
    case DMA_ROCR_QUEUE_READ_PTR:
    case DMA_ROCR_QUEUE_WRITE_PTR:
        *(uint64_t *)value = (uintptr_t)m->pointers + (what == DMA_ROCR_QUEUE_READ_PTR ? READ : 0);
        return fake_options.no_pointers ? DMA_ROCR_INVALID_ARGUMENT : DMA_ROCR_SUCCESS;
    default:
        ck_abort_msg("unknown question %u", what);
    }
}

static uint32_t destroy(dma_rocr_queue_t *queue)
{
    made_t *m = (made_t *)queue;
    dma_kfd_destroy_t args = {.queue_id = m->id};

    fake_counts.calls++;
    ck_assert_int_eq(fake_kernel(DMA_KFD_DESTROY_QUEUE, &args), 0);
    rocr.pool_free(m->pointers);
    free_ring(m);
    free(m);
    return DMA_ROCR_SUCCESS;
}

void fake_report(const dma_provider_queue_t *queue, uint32_t status)
{
    made_t *m = (made_t *)(uintptr_t)queue->handle;

    m->on_error(status, &m->queue, m->data);
}

dma_status_t fake_find_queues(dma_rocr_queues_t *queues, const char **reason)
{
    const char *unused;

    if (fake_fails() || fake_options.no_queues) {
        *reason = "this version of ROCr makes no DMA queues";
        return DMA_UNSUPPORTED;
    }
    if (!rocr.pool_allocate && fake_find_rocr(&rocr, &unused) != DMA_OK) {
        *reason = unused;
        return DMA_UNSUPPORTED;
    }
    *queues = (dma_rocr_queues_t){system_info, create, info, destroy};
    return DMA_OK;
}
