/* See libkfd_fake.h: the kernel. ROCr is in libkfd_fake_rocr.c. */
#include "libkfd_fake.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../emu/sdma.h"
#include "engine/sdma/packet.h"
#include "libkfd_fake_internal.h"

#define FD        77
#define DOORBELLS 1024
#define PAGE      4096
#define BLOCK     256   /* of a copy */
#define ENOTSUPP  524   /* the kernel's own, which user space has no name for */
#define PATIENCE  10000 /* steps of engines that wait */
#define OBJECTS   64
#define HANDLE    (UINT64_C(9) << 32) /* of the first memory object; it is neither an address nor 0 */

typedef struct queue {
    bool used;
    uint32_t id;
    unsigned engine, place;
    uint64_t ring, bytes, pointers;
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
    emu_sdma_node_t *node;
    emu_sdma_engine_t *engines[FAKE_ENGINES];
    bool taken[FAKE_ENGINES][FAKE_PER_ENGINE];
    queue_t queues[FAKE_ENGINES * FAKE_PER_ENGINE];
    object_t objects[OBJECTS];
    uint32_t next_id;
    unsigned next_doorbell;
    uint64_t doorbells[DOORBELLS];
    uint64_t now;
    unsigned reports;
    unsigned interrupted;
} kernel;

bool fake_fails(void)
{
    if (++fake_counts.calls != fake_options.fail_call) {
        return false;
    }
    errno = fake_options.fail_error;
    return true;
}

static const object_t *find_object(uint64_t at, uint64_t bytes)
{
    for (int i = 0; i < OBJECTS; i++) {
        const object_t *o = &kernel.objects[i];

        if (o->mapped && at >= o->at && at - o->at <= o->bytes && bytes <= o->bytes - (at - o->at)) {
            return o;
        }
    }
    return NULL;
}

static char *translate(void *ctx, int gpu, uint64_t va, uint64_t bytes, bool write, emu_sdma_where_t *where)
{
    (void)ctx;
    (void)gpu;
    (void)write;
    where->owner = EMU_SDMA_HOST;
    where->why = EMU_SDMA_WHY_UNMAPPED;
    return fake_memory_mapped(va, bytes) || find_object(va, bytes) ? (char *)(uintptr_t)va : NULL;
}

static void report(void *ctx, emu_sdma_rule_t rule, const char *text)
{
    (void)ctx;
    (void)rule;
    kernel.reports++;
    ck_abort_msg("%s", text);
}

static void vm_fault(void *ctx, int gpu, uint64_t va, bool write, emu_sdma_why_t why)
{
    (void)ctx;
    (void)gpu;
    (void)write;
    (void)why;
    ck_abort_msg("fault at %#llx", (unsigned long long)va);
}

static void trap(void *ctx, int gpu, uint32_t context)
{
    (void)ctx;
    (void)gpu;
    (void)context;
}

static void reset(void *ctx, int gpu, int engine)
{
    (void)ctx;
    (void)gpu;
    (void)engine;
}

static uint64_t look_at_clock(void *ctx)
{
    (void)ctx;
    return kernel.now += 100;
}

void fake_begin(const fake_options_t *options)
{
    const emu_sdma_env_t env = {NULL, translate, report, vm_fault, trap, reset, look_at_clock, NULL, NULL};
    emu_sdma_config_t config = emu_sdma_config(EMU_SDMA_GFX942, 1);

    memset(&kernel, 0, sizeof(kernel));
    memset(&fake_counts, 0, sizeof(fake_counts));
    fake_options = *options;
    fake_memory_begin();
    kernel.next_id = 40;
    kernel.next_doorbell = 3;
    kernel.node = emu_sdma_node_create(&config, &env);
    ck_assert_ptr_nonnull(kernel.node);
    for (int i = 0; i < FAKE_ENGINES; i++) {
        kernel.engines[i] = emu_sdma_engine_create(kernel.node, FAKE_NODE, i,
                                                   i < FAKE_HOST_ENGINES ? EMU_SDMA_HOST_FACING : EMU_SDMA_XGMI);
        ck_assert_ptr_nonnull(kernel.engines[i]);
    }
}

void fake_end(void)
{
    ck_assert_uint_eq(fake_counts.queues, 0);
    ck_assert_uint_eq(fake_counts.mapped, 0);
    ck_assert_uint_eq(fake_counts.files, 0);
    ck_assert_uint_eq(fake_counts.allocations, 0);
    ck_assert_uint_eq(fake_counts.rings, 0);
    ck_assert_uint_eq(fake_counts.pages, 0);
    ck_assert_uint_eq(kernel.reports, 0);
    fake_memory_end();
    emu_sdma_node_destroy(kernel.node);
}

void fake_sweep(void)
{
    for (size_t i = 0; i < sizeof(kernel.queues) / sizeof(kernel.queues[0]); i++) {
        if (kernel.queues[i].used) {
            emu_sdma_queue_destroy(kernel.queues[i].sdma);
            kernel.queues[i].used = false;
        }
    }
    for (int i = 0; i < OBJECTS; i++) {
        if (kernel.objects[i].at) {
            munmap((void *)(uintptr_t)kernel.objects[i].at, kernel.objects[i].bytes);
            kernel.objects[i] = (object_t){0};
        }
    }
    fake_memory_sweep();
    fake_counts.queues = fake_counts.mapped = fake_counts.files = fake_counts.rings = fake_counts.pages = 0;
}

void fake_run(void)
{
    bool moved = true;

    for (unsigned step = 0; moved && step < PATIENCE; step++) {
        moved = false;
        for (int i = 0; i < FAKE_ENGINES; i++) {
            emu_sdma_state_t state = emu_sdma_engine_step(kernel.engines[i], 8);

            moved |= state == EMU_SDMA_PROGRESSED || state == EMU_SDMA_BLOCKED;
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
    for (size_t i = 0; i < sizeof(kernel.queues) / sizeof(kernel.queues[0]); i++) {
        const queue_t *q = &kernel.queues[i];

        if (q->used && (q->ring == at || q->pointers == at)) {
            return true;
        }
    }
    return false;
}

int fake_engine_of(const uint64_t *doorbell)
{
    for (size_t i = 0; i < sizeof(kernel.queues) / sizeof(kernel.queues[0]); i++) {
        if (kernel.queues[i].used && &kernel.doorbells[kernel.queues[i].doorbell] == doorbell) {
            return (int)kernel.queues[i].engine;
        }
    }
    return -1;
}

void fake_occupy(unsigned engine, unsigned queues)
{
    for (unsigned i = 0; i < queues; i++) {
        kernel.taken[engine][i] = true;
    }
}

/* As the driver does it: the lowest free number of a pool. Number i is on engine i modulo the number of engines. */
static int take(uint32_t type, uint32_t engine, unsigned *on, unsigned *place)
{
    bool xgmi = type == DMA_KFD_QUEUE_SDMA_XGMI || (type == DMA_KFD_QUEUE_SDMA_BY_ENG && engine >= FAKE_HOST_ENGINES);
    unsigned first = xgmi ? FAKE_HOST_ENGINES : 0, count = xgmi ? FAKE_XGMI_ENGINES : FAKE_HOST_ENGINES;

    for (unsigned i = 0; i < count * FAKE_PER_ENGINE; i++) {
        *on = first + i % count;
        *place = i / count;
        if (!kernel.taken[*on][*place] && (type != DMA_KFD_QUEUE_SDMA_BY_ENG || *on == engine)) {
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

    ck_assert_uint_eq(args->gpu_id, FAKE_GPU_ID);
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
    }
    kernel.objects[i] = (object_t){.at = args->address, .bytes = args->bytes - fake_options.cut, .flags = args->flags};
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
    ck_assert_uint_eq(*(const uint32_t *)(uintptr_t)args->gpu_ids, FAKE_GPU_ID);
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

static int create(dma_kfd_create_t *args)
{
    unsigned limit = fake_options.max_queues ? fake_options.max_queues : FAKE_ENGINES * FAKE_PER_ENGINE;
    uint32_t minor = fake_options.minor ? fake_options.minor : 17;
    queue_t *q = kernel.queues;
    int error;

    if (args->percent > 100 || args->priority > 15 || !args->ring_bytes ||
        (args->ring_bytes & (args->ring_bytes - 1)) || args->gpu_id != FAKE_GPU_ID) {
        return EINVAL;
    }
    if (args->type != DMA_KFD_QUEUE_SDMA && args->type != DMA_KFD_QUEUE_SDMA_XGMI &&
        (args->type != DMA_KFD_QUEUE_SDMA_BY_ENG || minor < 17)) {
        return ENOTSUPP;
    }
    if (args->type == DMA_KFD_QUEUE_SDMA_BY_ENG && args->engine >= FAKE_ENGINES) {
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
    if ((error = take(args->type, args->engine, &q->engine, &q->place))) {
        return error;
    }
    q->used = true;
    q->id = args->queue_id = kernel.next_id++;
    q->ring = args->ring;
    q->pointers = args->write_ptr & ~UINT64_C(4095);
    q->doorbell = kernel.next_doorbell++;
    kernel.taken[q->engine][q->place] = true;
    fake_counts.queues++;
    q->sdma = emu_sdma_queue_create(kernel.engines[q->engine],
                                    &(emu_sdma_ring_t){.id = (int)q->id,
                                                       .va = args->ring,
                                                       .bytes = args->ring_bytes,
                                                       .rptr = (uint64_t *)(uintptr_t)args->read_ptr,
                                                       .wptr = (uint64_t *)(uintptr_t)args->write_ptr,
                                                       .doorbell = &kernel.doorbells[q->doorbell]});
    ck_assert_ptr_nonnull(q->sdma);
    args->doorbell_offset = UINT64_C(3) << 62 | (uint64_t)FAKE_GPU_ID << 46 | q->doorbell * sizeof(uint64_t);
    return 0;
}

static int destroy(const dma_kfd_destroy_t *args)
{
    for (size_t i = 0; i < sizeof(kernel.queues) / sizeof(kernel.queues[0]); i++) {
        queue_t *q = &kernel.queues[i];

        if (q->used && q->id == args->queue_id) {
            emu_sdma_queue_destroy(q->sdma);
            kernel.taken[q->engine][q->place] = false;
            q->used = false;
            fake_counts.queues--;
            return 0;
        }
    }
    ck_abort_msg("there is no queue %u to destroy", args->queue_id);
}

static int fake_open(const char *path, int flags)
{
    fake_counts.system++;
    if (fake_fails()) {
        return -1;
    }
    ck_assert_str_eq(path, "/dev/kfd");
    ck_assert_int_eq(flags, O_RDWR | O_CLOEXEC);
    if (fake_options.open_error) {
        errno = fake_options.open_error;
        return -1;
    }
    fake_counts.opens++;
    fake_counts.files++;
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
    return &kernel.doorbells[offset % sizeof(kernel.doorbells) / sizeof(uint64_t)];
}

static int fake_ioctl(int fd, unsigned long request, void *argument)
{
    int error;

    fake_counts.system++;
    /* The end of a queue or of memory gives no information that the tests need. */
    if (request != DMA_KFD_DESTROY_QUEUE && request != DMA_KFD_UNMAP && request != DMA_KFD_FREE && fake_fails()) {
        return -1;
    }
    ck_assert_int_eq(fd, FD);
    if (kernel.interrupted++ < fake_options.interruptions) {
        errno = kernel.interrupted % 2 ? EINTR : EAGAIN;
        return -1;
    }
    kernel.interrupted = 0;
    errno = error = fake_kernel(request, argument);
    return error ? -1 : 0;
}

static void *fake_mmap(size_t bytes, int fd, uint64_t offset)
{
    fake_counts.system++;
    if (fake_fails()) {
        return MAP_FAILED;
    }
    if (fd == -1) {
        void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        ck_assert_ptr_ne(at, MAP_FAILED);
        fake_counts.pages++;
        return at;
    }
    ck_assert_int_eq(fd, FD);
    if (fake_options.no_doorbells || bytes != sizeof(kernel.doorbells) ||
        offset != (UINT64_C(3) << 62 | (uint64_t)FAKE_GPU_ID << 46)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    fake_counts.maps++;
    fake_counts.mapped++;
    return kernel.doorbells;
}

static int fake_munmap(void *at, size_t bytes)
{
    fake_counts.system++;
    if (at != kernel.doorbells) {
        ck_assert_msg(!find_object((uintptr_t)at, 1), "pages are given back that the GPU has");
        fake_counts.pages--;
        return munmap(at, bytes);
    }
    ck_assert_uint_eq(bytes, sizeof(kernel.doorbells));
    fake_counts.mapped--;
    return 0;
}

static int fake_close(int fd)
{
    fake_counts.system++;
    ck_assert_int_eq(fd, FD);
    fake_counts.files--;
    return 0;
}

static const dma_kfd_sys_t world = {fake_open, fake_ioctl, fake_mmap, fake_munmap, fake_close, fake_find_rocr};

static dma_status_t open_here(const dma_provider_gpu_t *gpu, dma_provider_t **provider, char *why)
{
    return dma_kfd_open(&world, gpu, provider, why);
}

static const dma_provider_ops_t opener = {.name = "kfd", .open = open_here};
const dma_provider_ops_t *const fake_providers[] = {&opener, NULL};
