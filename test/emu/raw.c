/* Direct use of the thunk; see raw.h. */
#include "raw.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE = 120, MAX_NODES = 16, PAGE = 4096, READ = 64, DOORBELLS = 8192, KFD_BY_ENGINE = 4 };

/* The argument of the kernel's call for a queue, from version 1.17 of the interface on. */
struct kfd_create {
    uint64_t ring, write, read, doorbell;
    uint32_t bytes, gpu_id, type, percentage, priority, id;
    uint64_t eop[3];
    uint32_t sizes[2], engine, pad;
};

static uint32_t gpus;

_Noreturn void raw_fail(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(stderr, "%s\n", text); /* one write: lines of several ranks must not mix */
    exit(1);
}

void raw_check(HSAKMT_STATUS status, const char *call, const char *file, int line)
{
    if (status != HSAKMT_STATUS_SUCCESS)
        raw_fail("%s:%d: %s: status %d", file, line, call, status);
}

int raw_open(void)
{
    HSAKMT_STATUS status = hsaKmtOpenKFD();
    if (status != HSAKMT_STATUS_KERNEL_ALREADY_OPENED) {
        HsaSystemProperties system;
        RAW_CHECK(status);
        RAW_CHECK(hsaKmtAcquireSystemProperties(&system));
    }
    HsaNodeProperties node;
    for (gpus = 0; hsaKmtGetNodeProperties(gpus + 1, &node) == HSAKMT_STATUS_SUCCESS;)
        gpus++;
    return (int)gpus;
}

void raw_map(void *memory, size_t bytes, uint32_t mapped)
{
    uint32_t nodes[MAX_NODES], count = mapped ? 1 : gpus;
    for (uint32_t i = 0; i < count; i++)
        nodes[i] = mapped ? mapped : i + 1;
    HSAuint64 alternate;
    RAW_CHECK(hsaKmtMapMemoryToGPUNodes(memory, bytes, &alternate, (HsaMemMapFlags){.Value = 0}, count, nodes));
}

void *raw_allocate(uint32_t node, size_t bytes, uint32_t mapped)
{
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.HostAccess = flags.ui32.NonPaged = 1;
    flags.ui32.ExecuteAccess = flags.ui32.Uncached = node == 0;
    void *memory;
    RAW_CHECK(hsaKmtAllocMemory(node, bytes, flags, &memory));
    raw_map(memory, bytes, mapped);
    return memory;
}

/* Returns the driver's id of a GPU from KFD's files, which must all be readable. */
static uint32_t gpu_id_of(uint32_t node)
{
    char path[PAGE];
    uint32_t id;
    snprintf(path, sizeof path, "%s/nodes/%u/gpu_id", getenv("EMU_SYSFS"), node);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%u", &id) != 1)
        raw_fail("there is no %s", path);
    fclose(file);
    return id;
}

/* Creates a queue on a given engine by the kernel's call, because the thunk has no call for that. The doorbells stay mapped. */
static HSAKMT_STATUS try_engine(struct raw_queue *queue, uint32_t node, uint32_t engine)
{
    queue->pointers = raw_allocate(0, PAGE, node);
    memset(queue->pointers, 0, PAGE);
    struct kfd_create args = {.ring = (uintptr_t)queue->ring,
                              .write = (uintptr_t)queue->pointers,
                              .read = (uintptr_t)queue->pointers + READ,
                              .bytes = RAW_RING,
                              .gpu_id = gpu_id_of(node),
                              .type = KFD_BY_ENGINE,
                              .percentage = 100,
                              .engine = engine};
    int fd = open("/dev/kfd", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        raw_fail("there is no driver");
    int error = ioctl(fd, _IOWR('K', 2, struct kfd_create), &args);
    char *doorbells = MAP_FAILED;
    if (error == 0)
        doorbells = mmap(NULL, DOORBELLS, PROT_READ | PROT_WRITE, MAP_SHARED, fd, args.doorbell & -(off_t)DOORBELLS);
    close(fd);
    if (doorbells == MAP_FAILED)
        return HSAKMT_STATUS_ERROR;
    queue->resource.QueueId = args.id;
    queue->resource.Queue_write_ptr_aql = (HSAuint64 *)(uintptr_t)args.write;
    queue->resource.Queue_read_ptr_aql = (HSAuint64 *)(uintptr_t)args.read;
    queue->resource.Queue_DoorBell_aql = (HSAuint64 *)(uintptr_t)(doorbells + args.doorbell % DOORBELLS);
    return HSAKMT_STATUS_SUCCESS;
}

HSAKMT_STATUS raw_try_queue(struct raw_queue *queue, uint32_t node, int type, uint32_t engine)
{
    memset(queue, 0, sizeof *queue);
    queue->ring = raw_allocate(0, RAW_RING, node);
    if (type == RAW_BY_ENGINE)
        return try_engine(queue, node, engine);
    return hsaKmtCreateQueue(node, (HSA_QUEUE_TYPE)type, 100, HSA_QUEUE_PRIORITY_NORMAL, queue->ring, RAW_RING, NULL,
                             &queue->resource);
}

void raw_queue(struct raw_queue *queue, uint32_t node, int type, uint32_t engine)
{
    RAW_CHECK(raw_try_queue(queue, node, type, engine));
}

void raw_destroy(struct raw_queue *queue)
{
    RAW_CHECK(hsaKmtDestroyQueue(queue->resource.QueueId));
    RAW_CHECK(hsaKmtUnmapMemoryToGPU(queue->ring));
    RAW_CHECK(hsaKmtFreeMemory(queue->ring, RAW_RING));
    if (queue->pointers) {
        RAW_CHECK(hsaKmtUnmapMemoryToGPU(queue->pointers));
        RAW_CHECK(hsaKmtFreeMemory(queue->pointers, PAGE));
    }
}

void raw_put(struct raw_queue *queue, const uint32_t *packet, unsigned dwords)
{
    uint64_t bytes = dwords * sizeof *packet, offset = queue->written % RAW_RING;
    /* A packet must not cross the end of the ring: the rest is filled with NOPs. */
    uint64_t pad = offset + bytes > RAW_RING ? RAW_RING - offset : 0;
    while (queue->written + pad + bytes - *(volatile uint64_t *)queue->resource.Queue_read_ptr_aql >= RAW_RING)
        sched_yield();
    memset(queue->ring + offset, 0, pad);
    queue->written += pad;
    memcpy(queue->ring + queue->written % RAW_RING, packet, bytes);
    queue->written += bytes;
}

static uint32_t low(const void *address)
{
    return (uint32_t)(uintptr_t)address;
}

static uint32_t high(const void *address)
{
    return (uint32_t)((uintptr_t)address >> 32);
}

void raw_copy(struct raw_queue *queue, void *to, const void *from, uint32_t bytes)
{
    raw_put(queue, (uint32_t[]){1, bytes - 1, 0, low(from), high(from), low(to), high(to)}, 7);
}

void raw_fence(struct raw_queue *queue, void *at, uint32_t value)
{
    raw_put(queue, (uint32_t[]){5, low(at), high(at), value}, 4);
}

/* A POLL of memory for at least `least`, without a limit. */
void raw_poll(struct raw_queue *queue, void *at, uint32_t least)
{
    raw_put(queue, (uint32_t[]){8u | 5u << 28 | 1u << 31, low(at), high(at), least, ~0u, 4u | 0xfffu << 16}, 6);
}

void raw_ring(struct raw_queue *queue)
{
    __atomic_store_n(queue->resource.Queue_write_ptr_aql, queue->written, __ATOMIC_RELEASE);
    __atomic_store_n(queue->resource.Queue_DoorBell_aql, queue->written, __ATOMIC_SEQ_CST);
}

int raw_wait(const void *at, uint32_t value)
{
    time_t late = time(NULL) + PATIENCE;
    while (__atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE) != value) {
        if (time(NULL) > late)
            return 0;
        sched_yield();
    }
    return 1;
}

unsigned long raw_recommended_engines(int from, int to)
{
    for (int link = 0; link < MAX_NODES; link++) {
        char path[PAGE], key[128];
        unsigned long value, node = 0, mask = 0;
        snprintf(path, sizeof path, "%s/nodes/%d/io_links/%d/properties", getenv("EMU_SYSFS"), from + 1, link);
        FILE *file = fopen(path, "r");
        while (file && fscanf(file, "%127s %lu", key, &value) == 2) {
            node = strcmp(key, "node_to") == 0 ? value : node;
            mask = strcmp(key, "recommended_sdma_engine_id_mask") == 0 ? value : mask;
        }
        if (file)
            fclose(file);
        if ((int)node == to + 1 && mask)
            return mask;
    }
    return 0;
}
