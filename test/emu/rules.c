/*
 * rules NAME: a program that breaks one rule or gets one injected failure. Each runs in a process of its own. The exit status
 * is 0 if the node behaves as the driver. emu.sh looks for the violation in the log.
 */
#include "raw.h"

#include <dlfcn.h>
#include <hsa/hsa.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, BLOCK = 1 << 20, LINK_QUEUES = 24 };

static void expect(int held, const char *what)
{
    if (!held)
        raw_fail("not so: %s", what);
}
#define EXPECT(condition) expect(condition, #condition)

/* Submits a copy and a fence. True: the fence was written in so many milliseconds. */
static int ends_within(int ms, uint32_t node, void *to, const void *from)
{
    struct raw_queue queue;
    char *done = raw_allocate(0, PAGE, node);
    raw_queue(&queue, node, RAW_XGMI, 0);
    raw_copy(&queue, to, from, PAGE);
    raw_fence(&queue, done, 1);
    raw_ring(&queue);
    for (int i = 0; i < ms && __atomic_load_n((uint32_t *)done, __ATOMIC_ACQUIRE) == 0; i++)
        usleep(1000);
    return __atomic_load_n((uint32_t *)done, __ATOMIC_ACQUIRE) == 1;
}

/* A copy that must end has time enough on a busy machine. */
static int must_end(uint32_t node, void *to, const void *from)
{
    return ends_within(120000, node, to, from);
}

/* A copy that must not end has time enough to do so nevertheless. */
static int copy_ends(uint32_t node, void *to, const void *from)
{
    return ends_within(600, node, to, from);
}

static void nothing_wrong(void)
{
    struct raw_queue queue;
    char *memory = raw_allocate(1, BLOCK, 1), *done = raw_allocate(0, PAGE, 1);
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    memset(memory, 7, PAGE);
    raw_copy(&queue, memory + PAGE, memory, PAGE);
    raw_fence(&queue, done, 1);
    raw_ring(&queue);
    EXPECT(raw_wait(done, 1));
    EXPECT(memcmp(memory, memory + PAGE, PAGE) == 0);
    raw_destroy(&queue);
    RAW_CHECK(hsaKmtFreeMemory(memory, BLOCK));
}

/* The size of a compute unit's register file is the same for all GPUs that the node emulates. */
static void registers(void)
{
    HsaNodeProperties node;
    RAW_CHECK(hsaKmtGetNodeProperties(1, &node));
    EXPECT(node.VGPRSizePerCU == 512 << 10);
    EXPECT(node.SGPRSizePerCU == 16 << 10);
}

static void released(void)
{
    HsaNodeProperties node;
    RAW_CHECK(hsaKmtReleaseSystemProperties());
    EXPECT(hsaKmtGetNodeProperties(0, &node) != HSAKMT_STATUS_SUCCESS);
}

static void ring_size(void)
{
    HsaQueueResource resource = {.QueueId = 0};
    char *ring = raw_allocate(0, 2 * RAW_RING, 1);
    EXPECT(hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, RAW_RING, NULL, &resource) ==
           HSAKMT_STATUS_INVALID_PARAMETER);
}

static void ring_mapping(void)
{
    HsaQueueResource resource = {.QueueId = 0};
    char *ring = raw_allocate(0, RAW_RING, 2);
    EXPECT(hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, RAW_RING, NULL, &resource) ==
           HSAKMT_STATUS_INVALID_PARAMETER);
}

static void ring_execution(void)
{
    HsaQueueResource resource = {.QueueId = 0};
    char *ring = raw_allocate(1, RAW_RING, 1);
    EXPECT(hsaKmtCreateQueue(1, HSA_QUEUE_SDMA, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, RAW_RING, NULL, &resource) ==
           HSAKMT_STATUS_INVALID_PARAMETER);
}

static void ipc_of(void *memory, size_t bytes)
{
    HsaSharedMemoryHandle handle;
    EXPECT(hsaKmtShareMemory(memory, bytes, &handle) == HSAKMT_STATUS_INVALID_PARAMETER);
}

static void ipc_host(void)
{
    ipc_of(raw_allocate(0, BLOCK, 1), BLOCK);
}

static void ipc_part(void)
{
    ipc_of((char *)raw_allocate(1, BLOCK, 1) + PAGE, PAGE);
}

static void ipc_registered(void)
{
    char *memory = aligned_alloc(PAGE, BLOCK);
    RAW_CHECK(hsaKmtRegisterMemory(memory, BLOCK));
    ipc_of(memory, BLOCK);
}

static void ipc_imported(void)
{
    HsaSharedMemoryHandle handle;
    HSAuint64 bytes;
    void *again;
    RAW_CHECK(hsaKmtShareMemory(raw_allocate(1, BLOCK, 1), BLOCK, &handle));
    RAW_CHECK(hsaKmtRegisterSharedHandle(&handle, &again, &bytes));
    ipc_of(again, BLOCK);
}

/* The driver refuses to import freed memory, also if the exporter has new memory at the same address. This is no violation. */
static void ipc_freed(void)
{
    HsaSharedMemoryHandle handle;
    HSAuint64 bytes;
    void *memory = raw_allocate(1, BLOCK, 1), *again;
    RAW_CHECK(hsaKmtShareMemory(memory, BLOCK, &handle));
    RAW_CHECK(hsaKmtFreeMemory(memory, BLOCK));
    raw_allocate(1, BLOCK, 1);
    EXPECT(hsaKmtRegisterSharedHandle(&handle, &again, &bytes) != HSAKMT_STATUS_SUCCESS);
}

/* The node refuses an import while memory that was freed at the same address is still open. This is no violation. */
static void ipc_stale(void)
{
    HsaSharedMemoryHandle handle;
    HSAuint64 bytes;
    void *memory = raw_allocate(1, BLOCK, 1), *open, *again;
    RAW_CHECK(hsaKmtShareMemory(memory, BLOCK, &handle));
    RAW_CHECK(hsaKmtRegisterSharedHandle(&handle, &open, &bytes));
    RAW_CHECK(hsaKmtFreeMemory(memory, BLOCK));
    EXPECT(raw_allocate(1, BLOCK, 1) == memory);
    RAW_CHECK(hsaKmtShareMemory(memory, BLOCK, &handle));
    EXPECT(hsaKmtRegisterSharedHandle(&handle, &again, &bytes) != HSAKMT_STATUS_SUCCESS);
    RAW_CHECK(hsaKmtDeregisterMemory(open));
    RAW_CHECK(hsaKmtRegisterSharedHandle(&handle, &again, &bytes));
}

/* Without a quarantine, freed addresses are used again. */
static void used_again(void)
{
    void *first = raw_allocate(1, BLOCK, 1);
    RAW_CHECK(hsaKmtFreeMemory(first, BLOCK));
    EXPECT(raw_allocate(1, BLOCK, 1) == first);
}

static void free_twice(void)
{
    void *memory = raw_allocate(1, BLOCK, 1);
    RAW_CHECK(hsaKmtFreeMemory(memory, BLOCK));
    EXPECT(hsaKmtFreeMemory(memory, BLOCK) != HSAKMT_STATUS_SUCCESS);
}

static void destroy_twice(void)
{
    struct raw_queue queue;
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    RAW_CHECK(hsaKmtDestroyQueue(queue.resource.QueueId));
    EXPECT(hsaKmtDestroyQueue(queue.resource.QueueId) != HSAKMT_STATUS_SUCCESS);
}

/* EMU_QUARANTINE=64 */
static void freed(void)
{
    char *from = raw_allocate(1, BLOCK, 1), *to = raw_allocate(1, BLOCK, 1);
    RAW_CHECK(hsaKmtFreeMemory(to, BLOCK));
    EXPECT(raw_allocate(1, BLOCK, 1) != to);
    EXPECT(!copy_ends(1, to, from));
}

static void unmapped(void)
{
    char *from = raw_allocate(1, BLOCK, 1), *to = raw_allocate(1, BLOCK, 1);
    RAW_CHECK(hsaKmtUnmapMemoryToGPU(to));
    EXPECT(!copy_ends(1, to, from));
}

static void other_gpu(void)
{
    EXPECT(!copy_ends(2, raw_allocate(1, BLOCK, 1), raw_allocate(2, BLOCK, 2)));
}

/* On an MI300X, only engines of links may copy memory of other GPUs. */
static void host_facing(void)
{
    struct raw_queue queue;
    char *near = raw_allocate(1, BLOCK, 1), *far = raw_allocate(2, BLOCK, 1), *done = raw_allocate(0, PAGE, 1);
    EXPECT(must_end(1, far, near));
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    raw_copy(&queue, far, near, PAGE);
    raw_fence(&queue, done, 1);
    raw_ring(&queue);
    usleep(500000);
    EXPECT(__atomic_load_n((uint32_t *)done, __ATOMIC_ACQUIRE) == 0);
}

/* Registered memory has another address for GPUs. */
static void cpu_address(void)
{
    char *memory = aligned_alloc(PAGE, BLOCK), *to = raw_allocate(1, BLOCK, 1);
    HSAuint64 device;
    memset(memory, 5, BLOCK);
    RAW_CHECK(hsaKmtRegisterMemory(memory, BLOCK));
    RAW_CHECK(hsaKmtMapMemoryToGPU(memory, BLOCK, &device));
    EXPECT(device != (uintptr_t)memory);
    EXPECT(must_end(1, to, (void *)(uintptr_t)device));
    EXPECT(to[0] == 5 && to[PAGE - 1] == 5);
    EXPECT(!copy_ends(1, to, memory));
}

static void bad_packet(void)
{
    struct raw_queue queue;
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    raw_put(&queue, (uint32_t[]){0xee}, 1);
    raw_ring(&queue);
    usleep(500000);
}

/* A compute queue gets one packet of 64 bytes, and halts. */
static void compute(const hsa_kernel_dispatch_packet_t *packet)
{
    char *ring = raw_allocate(0, RAW_RING, 1);
    uint64_t *read = raw_allocate(0, PAGE, 1);
    HsaQueueResource resource = {.Queue_read_ptr_aql = read};
    memcpy(ring, packet, sizeof *packet);
    RAW_CHECK(
        hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, RAW_RING, NULL, &resource));
    __atomic_store_n(resource.Queue_DoorBell_aql, 0, __ATOMIC_RELEASE);
    usleep(500000);
    EXPECT(__atomic_load_n(read, __ATOMIC_ACQUIRE) == 0);
    RAW_CHECK(hsaKmtDestroyQueue(resource.QueueId));
}

static bool has_run(const uint64_t *read, uint64_t packets)
{
    for (int i = 0; i < 5000 && __atomic_load_n(read, __ATOMIC_ACQUIRE) != packets; i++)
        usleep(1000);
    return __atomic_load_n(read, __ATOMIC_ACQUIRE) == packets;
}

/* Two producers: the doorbell of packet 1 is overwritten by that of packet 0 before anyone has looked at it. Nothing runs before
 * anyone has rung. */
static void rung_in_any_order(void)
{
    hsa_barrier_and_packet_t *ring = raw_allocate(0, RAW_RING, 1);
    uint64_t *read = raw_allocate(0, PAGE, 1);
    HsaQueueResource resource = {.Queue_read_ptr_aql = read};
    for (size_t i = 0; i < RAW_RING / sizeof *ring; i++)
        ring[i].header = i < 2 ? HSA_PACKET_TYPE_BARRIER_AND : HSA_PACKET_TYPE_INVALID;
    RAW_CHECK(
        hsaKmtCreateQueue(1, HSA_QUEUE_COMPUTE_AQL, 100, HSA_QUEUE_PRIORITY_NORMAL, ring, RAW_RING, NULL, &resource));
    usleep(100000);
    EXPECT(has_run(read, 0));
    __atomic_store_n(resource.Queue_DoorBell_aql, 0, __ATOMIC_RELEASE);
    EXPECT(has_run(read, 2));
    __atomic_store_n(&ring[2].header, HSA_PACKET_TYPE_BARRIER_AND, __ATOMIC_RELEASE);
    __atomic_store_n(resource.Queue_DoorBell_aql, 2, __ATOMIC_RELEASE);
    EXPECT(has_run(read, 3));
    RAW_CHECK(hsaKmtDestroyQueue(resource.QueueId));
}

static void bad_aql_packet(void)
{
    compute(&(hsa_kernel_dispatch_packet_t){.header = HSA_PACKET_TYPE_AGENT_DISPATCH});
}

static void unknown_kernel(void)
{
    char *object = raw_allocate(1, PAGE, 1);
    compute(
        &(hsa_kernel_dispatch_packet_t){.header = HSA_PACKET_TYPE_KERNEL_DISPATCH, .kernel_object = (uintptr_t)object});
}

/* If the node is not strict, a queue that is in a POLL can be destroyed, and the violation is reported. */
static void destroy_in_poll(void)
{
    struct raw_queue queue;
    char *word = raw_allocate(0, PAGE, 1);
    raw_queue(&queue, 1, RAW_XGMI, 0);
    raw_poll(&queue, word, 1);
    raw_ring(&queue);
    usleep(50000);
    RAW_CHECK(hsaKmtDestroyQueue(queue.resource.QueueId));
}

static void leak(void)
{
    struct raw_queue queue;
    raw_queue(&queue, 1, RAW_XGMI, 0);
}

/* A component that waits for the event of faults gets it, and the process continues. */
static void fault_event(void)
{
    HsaEventDescriptor descriptor = {.EventType = HSA_EVENTTYPE_MEMORY, .NodeId = 1};
    HsaEvent *event;
    RAW_CHECK(hsaKmtCreateEvent(&descriptor, false, false, &event));
    char *from = raw_allocate(1, BLOCK, 1);
    EXPECT(!copy_ends(1, (void *)0x123456000, from));
    RAW_CHECK(hsaKmtWaitOnEvent(event, 5000));
    EXPECT(event->EventData.EventData.MemoryAccessFault.VirtualAddress == 0x123456000);
    EXPECT(event->EventData.EventData.MemoryAccessFault.NodeId == 1);
    EXPECT(hsaKmtWaitOnEvent(event, 0) == HSAKMT_STATUS_WAIT_TIMEOUT);
}

/* EMU_RESET_PACKET=2 */
static void engine_reset(void)
{
    HsaEventDescriptor descriptor = {.EventType = HSA_EVENTTYPE_HW_EXCEPTION, .NodeId = 1};
    HsaEvent *event;
    RAW_CHECK(hsaKmtCreateEvent(&descriptor, false, false, &event));
    EXPECT(!copy_ends(1, raw_allocate(1, BLOCK, 1), raw_allocate(1, BLOCK, 1)));
    RAW_CHECK(hsaKmtWaitOnEvent(event, 5000));
}

/* On an MI308X, the driver assigns engines in turn, and the second one is fused off. */
static void missing_engine(void)
{
    struct raw_queue queue[2];
    raw_queue(&queue[0], 1, HSA_QUEUE_SDMA, 0);
    EXPECT(raw_try_queue(&queue[1], 1, HSA_QUEUE_SDMA, 0) != HSAKMT_STATUS_SUCCESS);
    raw_destroy(&queue[0]);
}

/* EMU_FAULT_PACKET=1 */
static void injected_fault(void)
{
    EXPECT(!copy_ends(1, raw_allocate(1, BLOCK, 1), raw_allocate(1, BLOCK, 1)));
}

/* EMU_FAIL_QUEUE_AFTER=2 */
static void few_queues(void)
{
    struct raw_queue queue[3];
    raw_queue(&queue[0], 1, RAW_XGMI, 0);
    raw_queue(&queue[1], 1, HSA_QUEUE_SDMA, 0);
    EXPECT(raw_try_queue(&queue[2], 1, RAW_XGMI, 0) != HSAKMT_STATUS_SUCCESS);
    raw_destroy(&queue[0]);
    raw_destroy(&queue[1]);
}

/* EMU_FAIL_IMPORT_AFTER=1 */
static void few_imports(void)
{
    HsaSharedMemoryHandle handle;
    HSAuint64 bytes;
    void *memory = raw_allocate(1, BLOCK, 1), *again;
    RAW_CHECK(hsaKmtShareMemory(memory, BLOCK, &handle));
    RAW_CHECK(hsaKmtRegisterSharedHandle(&handle, &again, &bytes));
    EXPECT(again != memory && bytes == BLOCK);
    EXPECT(hsaKmtRegisterSharedHandle(&handle, &again, &bytes) != HSAKMT_STATUS_SUCCESS);
}

/* Creates queues until the call fails, and returns their number. */
static int take_all(uint32_t node)
{
    struct raw_queue queue;
    int taken = 0;
    while (raw_try_queue(&queue, node, RAW_XGMI, 0) == HSAKMT_STATUS_SUCCESS)
        taken++;
    return taken;
}

/* All processes together have eight queues per engine. The queues of a killed process are free again. The GPU has three
 * engines. */
static void shared_engines(void)
{
    int taken, pipes[2];
    EXPECT(pipe(pipes) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raw_open();
        taken = take_all(1);
        EXPECT(write(pipes[1], &taken, sizeof taken) == sizeof taken);
        pause();
    }
    EXPECT(read(pipes[0], &taken, sizeof taken) == sizeof taken);
    EXPECT(taken == LINK_QUEUES);
    raw_open();
    EXPECT(take_all(1) == 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    EXPECT(take_all(1) == LINK_QUEUES);
    EXPECT(take_all(2) == LINK_QUEUES);
}

static HsaEvent *event_of(int manual)
{
    HsaEventDescriptor descriptor = {.EventType = HSA_EVENTTYPE_SIGNAL, .NodeId = 1};
    HsaEvent *event;
    RAW_CHECK(hsaKmtCreateEvent(&descriptor, manual, false, &event));
    return event;
}

/* An event that resets itself ends one wait, a manual event all of them. An engine's interrupt signals an event. */
static void events(void)
{
    HsaEvent *automatic = event_of(0), *manual = event_of(1), *both[] = {automatic, manual};
    struct raw_queue queue;
    EXPECT(hsaKmtWaitOnEvent(automatic, 10) == HSAKMT_STATUS_WAIT_TIMEOUT);
    RAW_CHECK(hsaKmtSetEvent(automatic));
    EXPECT(hsaKmtWaitOnMultipleEvents(both, 2, true, 10) == HSAKMT_STATUS_WAIT_TIMEOUT);
    RAW_CHECK(hsaKmtWaitOnMultipleEvents(both, 2, false, 10));
    EXPECT(hsaKmtWaitOnEvent(automatic, 0) == HSAKMT_STATUS_WAIT_TIMEOUT);
    RAW_CHECK(hsaKmtSetEvent(manual));
    RAW_CHECK(hsaKmtWaitOnEvent(manual, 0));
    RAW_CHECK(hsaKmtWaitOnEvent(manual, 0));
    RAW_CHECK(hsaKmtResetEvent(manual));
    EXPECT(hsaKmtWaitOnEvent(manual, 0) == HSAKMT_STATUS_WAIT_TIMEOUT);
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    raw_fence(&queue, (void *)(uintptr_t)automatic->EventData.HWData2, automatic->EventId);
    raw_put(&queue, (uint32_t[]){6, automatic->EventId}, 2);
    raw_ring(&queue);
    RAW_CHECK(hsaKmtWaitOnEvent(automatic, 5000));
    EXPECT(*(uint64_t *)(uintptr_t)automatic->EventData.HWData2 == automatic->EventId);
    raw_destroy(&queue);
    RAW_CHECK(hsaKmtDestroyEvent(automatic));
    RAW_CHECK(hsaKmtDestroyEvent(manual));
}

/* Statistics can be written while queues run. */
static void statistics(void)
{
    int (*dump)(const char *path) = (int (*)(const char *))dlsym(RTLD_DEFAULT, "emu_stats_dump");
    char path[] = "/tmp/emu-stats-XXXXXX", line[256];
    struct raw_queue queue;
    int fd = mkstemp(path), copies = 0, moved = 0, rings = 0;
    char *memory = raw_allocate(2, BLOCK, 1), *done = raw_allocate(0, PAGE, 1);
    EXPECT(fd >= 0 && dump);
    raw_queue(&queue, 1, RAW_XGMI, 0);
    for (uint32_t i = 1; i <= 3; i++) {
        raw_copy(&queue, memory, memory + BLOCK / 2, 1000);
        raw_fence(&queue, done, i);
        raw_ring(&queue);
        EXPECT(raw_wait(done, i));
    }
    EXPECT(dump(path) == 0);
    FILE *file = fdopen(fd, "r");
    while (fgets(line, sizeof line, file)) {
        copies += strstr(line, " packet copy 3\n") != NULL;
        moved += strstr(line, " moved gpu1 bytes 3000 packets 3\n") != NULL;
        rings += strstr(line, " doorbells 3 fences 3 ") != NULL;
    }
    fclose(file);
    unlink(path);
    EXPECT(copies == 1 && moved == 1 && rings == 1);
    EXPECT(dump("/nowhere/at/all") < 0);
    raw_destroy(&queue);
}

/* A given engine has eight queues. */
static void by_engine(void)
{
    struct raw_queue queue;
    for (int i = 0; i < 8; i++)
        raw_queue(&queue, 1, RAW_BY_ENGINE, 3);
    EXPECT(raw_try_queue(&queue, 1, RAW_BY_ENGINE, 3) != HSAKMT_STATUS_SUCCESS);
    raw_queue(&queue, 1, RAW_BY_ENGINE, 4);
    EXPECT(raw_try_queue(&queue, 1, RAW_BY_ENGINE, 5) != HSAKMT_STATUS_SUCCESS); /* there are five engines, 0 to 4 */
}

static void update(struct raw_queue *queue, uint32_t percentage, void *ring, uint64_t bytes)
{
    RAW_CHECK(hsaKmtUpdateQueue(queue->resource.QueueId, percentage, HSA_QUEUE_PRIORITY_NORMAL, ring, bytes, NULL));
}

/* A queue stops without a ring or with a share of 0. When it has both again, it continues without a doorbell. Another ring is
 * refused. */
static void stopped(void)
{
    struct raw_queue queue;
    char *done = raw_allocate(0, PAGE, 1), *other = raw_allocate(0, RAW_RING, 1);
    raw_queue(&queue, 1, HSA_QUEUE_SDMA, 0);
    for (uint32_t i = 1; i <= 2; i++) {
        update(&queue, i == 1 ? 100 : 0, i == 1 ? NULL : queue.ring, i == 1 ? 0 : RAW_RING);
        raw_fence(&queue, done, i);
        raw_ring(&queue);
        usleep(100000);
        EXPECT(__atomic_load_n((uint32_t *)done, __ATOMIC_ACQUIRE) == i - 1);
        update(&queue, 100, queue.ring, RAW_RING);
        EXPECT(raw_wait(done, i));
    }
    EXPECT(hsaKmtUpdateQueue(queue.resource.QueueId, 100, HSA_QUEUE_PRIORITY_NORMAL, other, RAW_RING, NULL) !=
           HSAKMT_STATUS_SUCCESS);
    raw_destroy(&queue);
}

/* A child cannot use its parent's node, and the parent's queues are not disturbed. */
static void forked(void)
{
    nothing_wrong();
    pid_t child = fork();
    if (child == 0)
        exit(hsaKmtOpenKFD() == HSAKMT_STATUS_SUCCESS);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && status == 0);
    nothing_wrong();
}

static const struct {
    const char *name;
    void (*run)(void);
    int opens; /* by itself */
} cases[] = {
    {"nothing-wrong", nothing_wrong, 0},
    {"registers", registers, 0},
    {"released", released, 0},
    {"ring-size", ring_size, 0},
    {"missing-engine", missing_engine, 0},
    {"ring-mapping", ring_mapping, 0},
    {"ring-execution", ring_execution, 0},
    {"ipc-host", ipc_host, 0},
    {"ipc-part", ipc_part, 0},
    {"ipc-registered", ipc_registered, 0},
    {"ipc-imported", ipc_imported, 0},
    {"ipc-freed", ipc_freed, 0},
    {"ipc-stale", ipc_stale, 0},
    {"free-twice", free_twice, 0},
    {"destroy-twice", destroy_twice, 0},
    {"freed", freed, 0},
    {"unmapped", unmapped, 0},
    {"other-gpu", other_gpu, 0},
    {"cpu-address", cpu_address, 0},
    {"bad-packet", bad_packet, 0},
    {"bad-aql-packet", bad_aql_packet, 0},
    {"unknown-kernel", unknown_kernel, 0},
    {"rung-in-any-order", rung_in_any_order, 0},
    {"leak", leak, 0},
    {"destroy-in-poll", destroy_in_poll, 0},
    {"fault-event", fault_event, 0},
    {"engine-reset", engine_reset, 0},
    {"injected-fault", injected_fault, 0},
    {"few-queues", few_queues, 0},
    {"few-imports", few_imports, 0},
    {"shared-engines", shared_engines, 1},
    {"by-engine", by_engine, 0},
    {"forked", forked, 0},
    {"used-again", used_again, 0},
    {"events", events, 0},
    {"host-facing", host_facing, 0},
    {"statistics", statistics, 0},
    {"stopped", stopped, 0},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            if (!cases[i].opens)
                raw_open();
            cases[i].run();
            return 0;
        }
    raw_fail("usage: rules NAME");
}
