/* See libkfd_fake.h: the kernel. ROCr is in libkfd_fake_rocr.c, the engines are in libkfd_fake_engines.c. */
#include "libkfd_fake.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/sdma/hw/packet.h"
#include "libkfd_fake_internal.h"

#define FD        77
#define DOORBELLS 1024
#define PAGE      4096
#define BLOCK     256 /* of a copy */
#define ENOTSUPP  524 /* the kernel's own, which user space has no name for */
#define OBJECTS   512
#define QUEUES    256
#define GPUS      16
#define ENGINES   16
#define HANDLE    (UINT64_C(9) << 32) /* of the first memory object; it is neither an address nor 0 */

typedef struct queue {
    bool used, late;
    uint32_t id;
    int gpu;
    unsigned engine, place;
    uint64_t ring, bytes, pointers, *read_ptr, *write_ptr;
    uint64_t late_write, late_doorbell; /* of a late queue: what the engine sees instead of the real ones */
    unsigned doorbell;
    emu_sdma_queue_t *sdma;
} queue_t;

/* Memory objects that the kernel was asked to make from pages of the process. */
typedef struct object {
    uint64_t at, bytes;
    uint32_t flags;
    bool mapped;
} object_t;

fake_options_t fake_options;
fake_counts_t fake_counts;
const dma_provider_gpu_t fake_gpu = {
    .address = {FAKE_DOMAIN, FAKE_LOCATION},
    .gpu_id = FAKE_GPU_ID,
    .host_engines = FAKE_HOST_ENGINES,
    .xgmi_engines = FAKE_XGMI_ENGINES,
};

static struct {
    bool taken[GPUS][ENGINES][FAKE_PER_ENGINE];
    queue_t queues[QUEUES];
    object_t objects[OBJECTS];
    int nobjects; /* more than those are not in use */
    uint32_t next_id;
    unsigned next_doorbell;
    uint64_t doorbells[GPUS][DOORBELLS];
    unsigned interrupted;
    bool late_goes;
} kernel;

bool fake_fails(void)
{
    bool fails;

    fake_lock();
    fails = ++fake_counts.calls == fake_options.fail_call;
    fake_unlock();
    errno = fails ? fake_options.fail_error : errno;
    return fails;
}

static bool fake_system_fails(void)
{
    fake_lock();
    fake_counts.system++;
    fake_unlock();
    return fake_fails();
}

static const object_t *find_object(uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < kernel.nobjects; i++) {
        const object_t *o = &kernel.objects[i];

        if (o->mapped && at >= o->at && at - o->at <= o->bytes && bytes <= o->bytes - (at - o->at)) {
            return o;
        }
    }
    return NULL;
}

bool fake_ring_mapped(uint64_t at, uint64_t bytes)
{
    return find_object(at, bytes);
}

/* The place of a GPU among those of the machine, or -1. */
static int gpu_of(uint32_t gpu_id)
{
    const dma_topo_t *topo = fake_options.topo;

    for (uint32_t i = 0; topo && i < topo->ngpus; i++) {
        if (topo->gpus[i].gpu_id == gpu_id) {
            return (int)i;
        }
    }
    return topo || gpu_id != FAKE_GPU_ID ? -1 : 0;
}

static unsigned host_engines(int gpu)
{
    return fake_options.topo ? fake_options.topo->gpus[gpu].host_engines : FAKE_HOST_ENGINES;
}

static unsigned xgmi_engines(int gpu)
{
    return fake_options.topo ? fake_options.topo->gpus[gpu].xgmi_engines : FAKE_XGMI_ENGINES;
}

void fake_begin(const fake_options_t *options)
{
    memset(&kernel, 0, sizeof(kernel));
    memset(&fake_counts, 0, sizeof(fake_counts));
    fake_options = *options;
    fake_memory_begin();
    fake_engines_begin();
    kernel.next_id = 40;
    kernel.next_doorbell = 3;
    fake_engines_start();
}

static void drop_left(queue_t *q)
{
    ck_assert_msg(*q->read_ptr != *q->write_ptr, "a queue is left that has come to its end");
    fake_engine_drop(q->sdma, true);
    q->used = false;
}

void fake_end(void)
{
    fake_engines_stop();
    if (fake_options.left) {
        fake_sweep();
    }
    ck_assert_uint_eq(fake_counts.queues, 0);
    ck_assert_uint_eq(fake_counts.mapped, 0);
    ck_assert_uint_eq(fake_counts.files, 0);
    ck_assert_uint_eq(fake_counts.allocations, 0);
    ck_assert_uint_eq(fake_counts.rings, 0);
    ck_assert_uint_eq(fake_counts.pages, 0);
    fake_memory_end();
    fake_engines_end();
}

void fake_sweep(void)
{
    for (int i = 0; i < QUEUES; i++) {
        queue_t *q = &kernel.queues[i];

        if (q->used && fake_options.left) {
            drop_left(q);
        } else if (q->used) {
            fake_engine_drop(q->sdma, false);
            q->used = false;
        }
    }
    for (int i = 0; i < kernel.nobjects; i++) {
        if (kernel.objects[i].at) {
            munmap((void *)(uintptr_t)kernel.objects[i].at, kernel.objects[i].bytes);
            kernel.objects[i] = (object_t){0};
        }
    }
    fake_memory_sweep();
    fake_counts.queues = fake_counts.mapped = fake_counts.files = fake_counts.rings = fake_counts.pages = 0;
}

void fake_late_goes(void)
{
    fake_lock();
    kernel.late_goes = true;
    fake_unlock();
}

/* When late queues may go on, this function does what their owners do for other queues. */
void fake_late_pass(void)
{
    for (int i = 0; i < QUEUES && kernel.late_goes; i++) {
        queue_t *q = &kernel.queues[i];

        if (q->used && q->late) {
            __atomic_store_n(&q->late_write, __atomic_load_n(q->write_ptr, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
            __atomic_store_n(&q->late_doorbell,
                             __atomic_load_n(&kernel.doorbells[q->gpu][q->doorbell], __ATOMIC_ACQUIRE),
                             __ATOMIC_RELEASE);
        }
    }
}

void fake_copies(dma_queues_t *q, dma_queue_t *queue, uint32_t value)
{
    const char *reason;
    const dma_gen_t *gen = dma_gen_find(0x74a1, 90402, &reason);
    uint64_t addr;
    unsigned char *memory = dma_queues_alloc(q, PAGE, &addr);
    uint32_t *p, fence;

    ck_assert_ptr_nonnull(memory);
    ck_assert_uint_eq(addr, (uintptr_t)memory);
    ck_assert(!memory[0] && !memcmp(memory, memory + 1, PAGE - 1)); /* zeroed */
    memset(memory, (int)value, BLOCK);
    ck_assert_int_eq(dma_ring_reserve(&queue->ring, DMA_PACKET_COPY_DWORDS + DMA_PACKET_FENCE_DWORDS, 2, &p), DMA_OK);
    p += dma_packet_copy(p, gen, addr + BLOCK, addr, BLOCK);
    dma_packet_fence(p, addr + 2 * BLOCK, value);
    dma_ring_publish(&queue->ring);
    fake_run();
    memcpy(&fence, memory + 2 * BLOCK, sizeof(fence));
    ck_assert_uint_eq(fence, value);
    ck_assert_mem_eq(memory, memory + BLOCK, BLOCK);
    ck_assert_int_eq(dma_queue_check(queue, 1, NULL), DMA_OK);
    dma_queues_free(q, memory, PAGE);
}

bool fake_memory_in_use(uint64_t at)
{
    for (int i = 0; i < QUEUES; i++) {
        const queue_t *q = &kernel.queues[i];

        if (q->used && (q->ring == at || q->pointers == at)) {
            return true;
        }
    }
    return false;
}

int fake_engine_of(const uint64_t *doorbell)
{
    for (int i = 0; i < QUEUES; i++) {
        if (kernel.queues[i].used && &kernel.doorbells[kernel.queues[i].gpu][kernel.queues[i].doorbell] == doorbell) {
            return (int)kernel.queues[i].engine;
        }
    }
    return -1;
}

void fake_occupy(unsigned engine, unsigned queues)
{
    for (unsigned i = 0; i < queues; i++) {
        kernel.taken[0][engine][i] = true;
    }
}

/* As the driver does it: the lowest free number of a pool. Number i is on engine i modulo the number of engines. */
static int take(int gpu, uint32_t type, uint32_t engine, unsigned *on, unsigned *place)
{
    unsigned host = host_engines(gpu);
    bool xgmi = type == DMA_KFD_QUEUE_SDMA_XGMI || (type == DMA_KFD_QUEUE_SDMA_BY_ENG && engine >= host);
    unsigned first = xgmi ? host : 0, count = xgmi ? xgmi_engines(gpu) : host;

    for (unsigned i = 0; i < count * FAKE_PER_ENGINE; i++) {
        *on = first + i % count;
        *place = i / count;
        if (!kernel.taken[gpu][*on][*place] && (type != DMA_KFD_QUEUE_SDMA_BY_ENG || *on == engine)) {
            return 0;
        }
    }
    return ENOMEM;
}

/* A ring must be executable, and must be the whole of its memory object. */
static bool is_ring(uint64_t at, uint64_t bytes)
{
    const object_t *o = find_object(at, 1);

    return o && o->at == at && o->bytes == bytes && (o->flags & DMA_KFD_MEMORY_EXECUTABLE);
}

static int make_object(dma_kfd_alloc_t *args)
{
    int i = 0;

    ck_assert_int_ge(gpu_of(args->gpu_id), 0);
    ck_assert_uint_eq(args->flags, DMA_KFD_MEMORY_USERPTR | DMA_KFD_MEMORY_WRITABLE | DMA_KFD_MEMORY_EXECUTABLE |
                                       DMA_KFD_MEMORY_COHERENT);
    ck_assert_uint_eq(args->address, args->pages);
    ck_assert_uint_eq(args->address % 4096, 0);
    ck_assert_uint_eq(args->bytes % 4096, 0);
    ck_assert_uint_gt(args->bytes, 0);
    if (fake_options.no_ring_memory) {
        return EADDRINUSE;
    }
    while (kernel.objects[i].at) {
        i++;
        ck_assert_int_lt(i, OBJECTS);
    }
    kernel.objects[i] = (object_t){.at = args->address, .bytes = args->bytes - fake_options.cut, .flags = args->flags};
    kernel.nobjects = i < kernel.nobjects ? kernel.nobjects : i + 1;
    args->handle = HANDLE + (unsigned)i;
    fake_counts.rings++;
    return 0;
}

static object_t *object_of(uint64_t handle)
{
    ck_assert_uint_ge(handle, HANDLE);
    ck_assert_uint_lt(handle, HANDLE + OBJECTS);
    ck_assert_msg(kernel.objects[handle - HANDLE].at, "there is no object with this handle");
    return &kernel.objects[handle - HANDLE];
}

static int map_object(dma_kfd_map_t *args, bool map)
{
    object_t *o = object_of(args->handle);

    ck_assert_uint_eq(args->count, 1);
    ck_assert_uint_eq(args->done, 0);
    ck_assert_int_ge(gpu_of(*(const uint32_t *)(uintptr_t)args->gpu_ids), 0);
    if (map && fake_options.no_ring_map) {
        return EFAULT;
    }
    ck_assert(o->mapped != map);
    ck_assert_msg(map || !fake_memory_in_use(o->at), "the ring of a queue is unmapped before the queue");
    o->mapped = map;
    args->done = 1;
    return 0;
}

static int free_object(const dma_kfd_free_t *args)
{
    object_t *o = object_of(args->handle);

    ck_assert_msg(!o->mapped, "memory is freed that is still mapped");
    if (fake_options.keep_rings) {
        return EBUSY;
    }
    *o = (object_t){0};
    fake_counts.rings--;
    return 0;
}

static uint64_t doorbells_at(uint32_t gpu_id)
{
    return UINT64_C(3) << 62 | (uint64_t)(gpu_id & 0xffff) << 46;
}

static int create(dma_kfd_create_t *args)
{
    unsigned limit = fake_options.max_queues ? fake_options.max_queues : QUEUES;
    uint32_t minor = fake_options.minor ? fake_options.minor : 17;
    int gpu = gpu_of(args->gpu_id), error;
    queue_t *q = kernel.queues;
    emu_sdma_ring_t ring;

    if (args->percent > 100 || args->priority > 15 || !args->ring_bytes ||
        (args->ring_bytes & (args->ring_bytes - 1)) || gpu < 0) {
        return EINVAL;
    }
    if (args->type != DMA_KFD_QUEUE_SDMA && args->type != DMA_KFD_QUEUE_SDMA_XGMI &&
        (args->type != DMA_KFD_QUEUE_SDMA_BY_ENG || minor < 17)) {
        return ENOTSUPP;
    }
    if (args->type == DMA_KFD_QUEUE_SDMA_BY_ENG && args->engine >= host_engines(gpu) + xgmi_engines(gpu)) {
        return EINVAL;
    }
    if (!fake_memory_exact(args->write_ptr & ~UINT64_C(4095), 4096) ||
        !fake_memory_exact(args->read_ptr & ~UINT64_C(4095), 4096) || !is_ring(args->ring, args->ring_bytes)) {
        return EINVAL;
    }
    if (fake_counts.queues >= limit) {
        return EPERM;
    }
    while (q->used) {
        q++;
    }
    if ((error = take(gpu, args->type, args->engine, &q->engine, &q->place))) {
        return error;
    }
    fake_counts.made++;
    *q = (queue_t){.used = true,
                   .late = fake_counts.made == fake_options.late,
                   .id = kernel.next_id++,
                   .gpu = gpu,
                   .engine = q->engine,
                   .place = q->place,
                   .ring = args->ring,
                   .pointers = args->write_ptr & ~UINT64_C(4095),
                   .read_ptr = (uint64_t *)(uintptr_t)args->read_ptr,
                   .write_ptr = (uint64_t *)(uintptr_t)args->write_ptr,
                   .doorbell = kernel.next_doorbell++ % DOORBELLS};
    kernel.late_goes = kernel.late_goes || fake_counts.made == fake_options.late_until;
    kernel.taken[gpu][q->engine][q->place] = true;
    kernel.doorbells[gpu][q->doorbell] = 0;
    fake_counts.queues++;
    ring = (emu_sdma_ring_t){.id = (int)q->id,
                             .va = args->ring,
                             .bytes = args->ring_bytes,
                             .rptr = q->read_ptr,
                             .wptr = q->late ? &q->late_write : q->write_ptr,
                             .doorbell = q->late ? &q->late_doorbell : &kernel.doorbells[gpu][q->doorbell]};
    q->sdma = fake_engine_queue(gpu, q->engine, q->engine >= host_engines(gpu), &ring);
    ck_assert_ptr_nonnull(q->sdma);
    args->queue_id = q->id;
    args->doorbell_offset = doorbells_at(args->gpu_id) | q->doorbell * sizeof(uint64_t);
    return 0;
}

static int destroy(const dma_kfd_destroy_t *args)
{
    for (int i = 0; i < QUEUES; i++) {
        queue_t *q = &kernel.queues[i];

        if (q->used && q->id == args->queue_id) {
            fake_engine_drop(q->sdma, false);
            kernel.taken[q->gpu][q->engine][q->place] = false;
            q->used = false;
            fake_counts.queues--;
            return 0;
        }
    }
    ck_abort_msg("there is no queue %u to destroy", args->queue_id);
}

static int fake_open(const char *path, int flags)
{
    if (fake_system_fails()) {
        return -1;
    }
    ck_assert_str_eq(path, "/dev/kfd");
    ck_assert_int_eq(flags, O_RDWR | O_CLOEXEC);
    if (fake_options.open_error) {
        errno = fake_options.open_error;
        return -1;
    }
    fake_lock();
    fake_counts.opens++;
    fake_counts.files++;
    fake_unlock();
    return FD;
}

int fake_kernel(unsigned long request, void *argument)
{
    dma_kfd_version_t *version = argument;

    switch (request) {
    case DMA_KFD_GET_VERSION:
        version->major = fake_options.major ? fake_options.major : 1;
        version->minor = fake_options.minor ? fake_options.minor : 17;
        return 0;
    case DMA_KFD_CREATE_QUEUE:
        return create(argument);
    case DMA_KFD_DESTROY_QUEUE:
        return destroy(argument);
    case DMA_KFD_ALLOC:
        return make_object(argument);
    case DMA_KFD_MAP:
    case DMA_KFD_UNMAP:
        return map_object(argument, request == DMA_KFD_MAP);
    case DMA_KFD_FREE:
        return free_object(argument);
    default:
        ck_abort_msg("unknown request %#lx", request);
    }
}

uint64_t *fake_doorbell(uint64_t offset)
{
    return &kernel.doorbells[0][offset % sizeof(kernel.doorbells[0]) / sizeof(uint64_t)];
}

static int fake_ioctl(int fd, unsigned long request, void *argument)
{
    int error;

    fake_lock();
    fake_counts.system++;
    ck_assert_int_eq(fd, FD);
    /* The end of a queue or of memory gives no information that the tests need. */
    if (request != DMA_KFD_DESTROY_QUEUE && request != DMA_KFD_UNMAP && request != DMA_KFD_FREE && fake_fails()) {
        error = errno;
    } else if (kernel.interrupted < fake_options.interruptions) {
        error = kernel.interrupted++ % 2 ? EAGAIN : EINTR;
    } else {
        kernel.interrupted = 0;
        error = fake_kernel(request, argument);
    }
    fake_unlock();
    errno = error;
    return error ? -1 : 0;
}

static void *map_doorbells(size_t bytes, uint64_t offset)
{
    for (int i = 0; i < GPUS; i++) {
        const dma_topo_t *topo = fake_options.topo;
        uint32_t gpu_id = topo && i < (int)topo->ngpus ? topo->gpus[i].gpu_id : FAKE_GPU_ID;

        if (!fake_options.no_doorbells && bytes == sizeof(kernel.doorbells[i]) && offset == doorbells_at(gpu_id)) {
            fake_counts.maps++;
            fake_counts.mapped++;
            return kernel.doorbells[i];
        }
    }
    errno = EINVAL;
    return MAP_FAILED;
}

static void *fake_mmap(size_t bytes, int fd, uint64_t offset)
{
    void *at;

    if (fake_system_fails()) {
        return MAP_FAILED;
    }
    fake_lock();
    if (fd == -1) {
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ck_assert_ptr_ne(at, MAP_FAILED);
        fake_counts.pages++;
    } else {
        ck_assert_int_eq(fd, FD);
        at = map_doorbells(bytes, offset);
    }
    fake_unlock();
    return at;
}

static int fake_munmap(void *at, size_t bytes)
{
    bool doorbells = (uintptr_t)at - (uintptr_t)kernel.doorbells < sizeof(kernel.doorbells);

    fake_lock();
    fake_counts.system++;
    ck_assert_msg(!find_object((uintptr_t)at, 1), "pages are given back that the GPU has");
    ck_assert(!doorbells || bytes == sizeof(kernel.doorbells[0]));
    *(doorbells ? &fake_counts.mapped : &fake_counts.pages) -= 1;
    fake_unlock();
    return doorbells ? 0 : munmap(at, bytes);
}

static int fake_close(int fd)
{
    ck_assert_int_eq(fd, FD);
    fake_lock();
    fake_counts.system++;
    fake_counts.files--;
    fake_unlock();
    return 0;
}

static const dma_kfd_sys_t world = {fake_open, fake_ioctl, fake_mmap, fake_munmap, fake_close, fake_find_rocr};

static dma_status_t open_here(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    return dma_kfd_open(&world, gpu, provider, why);
}

const dma_provider_ops_t fake_kfd = {.name = "kfd", .open = open_here};
const dma_provider_ops_t *const fake_providers[] = {&fake_kfd, NULL};

/* ---- what programs find that are linked for it ---- */

dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason);
dma_status_t __wrap_dma_rocr_find(dma_rocr_t *rocr, const char **reason)
{
    return fake_find_rocr(rocr, reason);
}

extern const dma_provider_ops_t *const __wrap_dma_providers[];
const dma_provider_ops_t *const __wrap_dma_providers[] = {&dma_provider_rocr, &fake_kfd, NULL};
