/*
 * The functions of HIP that an MPI library uses, on the emulated node: memory and copies in all directions, types of pointers,
 * registered host memory, streams, events, writes and waits of values, addresses that the program manages, memory of another
 * process, and a DMA queue of the program beside HIP.
 *
 * usage: hip [child|fault] The program starts the child itself, which reads an IPC handle from its input. With "fault", a queue
 * of the program writes to an address without memory, and the runtime must end the program. If ROCm has no thunk for programs,
 * there are no such queues and no "fault".
 */
#define __HIP_PLATFORM_AMD__ 1
#include <hip/hip_runtime_api.h>

#ifdef DMA_HAVE_THUNK
#include "raw.h"
#endif

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* In HIP 6 this member has another name, memory that HIP does not know has a type of its own, and memory of another process is
 * on the device for which it was opened. */
#if HIP_VERSION_MAJOR >= 6
#define KIND(attributes)            (attributes).type
#define KIND_IS_UNKNOWN(attributes) ((attributes).type == hipMemoryTypeUnregistered)
#define HOME(device, opener)        (opener)
#else
#define KIND(attributes)            (attributes).memoryType
#define KIND_IS_UNKNOWN(attributes) 0
#define HOME(device, opener)        (device)
#endif

enum { BYTES = 3 << 20, MANAGED = 4 << 20, SMALL = 100, PAGE = 4096 };

static void expect(int held, const char *what, int line)
{
    if (!held) {
        fprintf(stderr, "hip.c:%d: not so: %s\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define HIP(call)         expect((call) == hipSuccess, #call, __LINE__)

static unsigned char *host, *back, *device[2];

static unsigned char pattern(size_t at, int seed)
{
    return (unsigned char)(at * 3 + (at >> 9) + (size_t)seed);
}

static void fill(unsigned char *memory, int seed)
{
    for (size_t i = 0; i < BYTES; i++)
        memory[i] = pattern(i, seed);
}

static int filled(const unsigned char *memory, size_t bytes, int seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != pattern(i, seed))
            return 0;
    return 1;
}

/* Devices have the PCI addresses of KFD's files. */
static void places(int count)
{
    for (int i = 0; i < count; i++) {
        char bus[32], path[PAGE], key[128];
        unsigned long long value, location = 0;
        HIP(hipDeviceGetPCIBusId(bus, sizeof bus, i));
        snprintf(path, sizeof path, "%s/nodes/%d/properties", getenv("EMU_SYSFS"), i + 1);
        FILE *file = fopen(path, "r");
        while (file && fscanf(file, "%127s %llu", key, &value) == 2)
            location = strcmp(key, "location_id") == 0 ? value : location;
        EXPECT(file && fclose(file) == 0);
        EXPECT(strtoul(bus + 5, NULL, 16) == location >> 8);
    }
}

static void copies(void)
{
    unsigned char *pageable = malloc(BYTES);
    fill(pageable, 1);
    HIP(hipMemcpy(device[0], pageable, BYTES, hipMemcpyHostToDevice));
    HIP(hipMemcpy(device[1], device[0], BYTES, hipMemcpyDeviceToDevice));
    memset(back, 0, BYTES);
    HIP(hipMemcpy(back, device[1], BYTES, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES, 1));
    fill(host, 2);
    HIP(hipMemcpy(device[1], host, BYTES, hipMemcpyHostToDevice));
    HIP(hipMemcpyPeer(device[0], 0, device[1], 1, BYTES));
    HIP(hipMemcpy(back, device[0], SMALL, hipMemcpyDeviceToHost));
    EXPECT(filled(back, SMALL, 2));
    HIP(hipMemcpy(device[0] + BYTES / 2, device[0], BYTES / 2, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(back, device[0] + BYTES / 2, BYTES / 2, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES / 2, 2));
    HIP(hipMemset(device[0], 0x42, BYTES));
    HIP(hipMemset(device[0] + 1, 0x43, 1001));
    HIP(hipMemcpy(back, device[0], BYTES, hipMemcpyDeviceToHost));
    EXPECT(back[0] == 0x42 && back[1] == 0x43 && back[1001] == 0x43 && back[1002] == 0x42 && back[BYTES - 1] == 0x42);
    free(pageable);
}

/* Copies rows of `width` bytes with pitches that are multiples of 16, of 4 and of 1. */
static void rectangles(void)
{
    static const size_t shapes[][4] = {{512, 1024, 2048, 512}, {700, 900, 1000, 704}, {333, 333, 1001, 777}};
    enum { ROWS = 200 };
    fill(host, 7);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        size_t width = shapes[i][0], first = shapes[i][1], second = shapes[i][2], third = shapes[i][3];
        third = third < width ? width : third;
        memset(back, 0, BYTES);
        HIP(hipMemcpy2D(device[0], second, host, first, width, ROWS, hipMemcpyHostToDevice));
        HIP(hipMemcpy2D(device[0] + BYTES / 2, third, device[0], second, width, ROWS, hipMemcpyDeviceToDevice));
        HIP(hipMemcpy2D(device[1], second, device[0] + BYTES / 2, third, width, ROWS, hipMemcpyDeviceToDevice));
        HIP(hipMemcpy2D(back, third, device[1], second, width, ROWS, hipMemcpyDeviceToHost));
        for (size_t row = 0; row < ROWS; row++)
            EXPECT(memcmp(back + row * third, host + row * first, width) == 0);
    }
}

static void pointers(void)
{
    hipPointerAttribute_t kind;
    HIP(hipPointerGetAttributes(&kind, device[1] + SMALL));
    EXPECT(KIND(kind) == hipMemoryTypeDevice && kind.device == 1);
    HIP(hipPointerGetAttributes(&kind, host));
    EXPECT(KIND(kind) == hipMemoryTypeHost);
    EXPECT(hipPointerGetAttributes(&kind, &kind) == hipErrorInvalidValue || KIND_IS_UNKNOWN(kind));
}

/* Without SVM, registered memory has another address on the device than in the process. */
static int has_svm(void)
{
    const char *door = getenv("EMU_DOOR"), *svm = getenv("EMU_SVM");
    return door && strcmp(door, "kernel") == 0 && !(svm && strcmp(svm, "0") == 0);
}

static void registered(void)
{
    unsigned char *memory = aligned_alloc(PAGE, BYTES);
    void *on_device;
    fill(memory, 3);
    HIP(hipHostRegister(memory, BYTES, hipHostRegisterDefault));
    HIP(hipHostGetDevicePointer(&on_device, memory, 0));
    EXPECT(on_device != memory || has_svm());
    HIP(hipMemcpy(device[0], memory, BYTES, hipMemcpyHostToDevice));
    HIP(hipMemcpy(back, device[0], BYTES, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES, 3));
    HIP(hipHostUnregister(memory));
    free(memory);
}

static void streams(void)
{
    hipStream_t first, second;
    hipEvent_t event, done;
    uint32_t *word;
    HIP(hipStreamCreate(&first));
    HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    HIP(hipEventCreate(&event));
    HIP(hipEventCreateWithFlags(&done, hipEventDisableTiming));
    fill(host, 4);
    memset(back, 0, BYTES);
    HIP(hipMemcpyAsync(device[0], host, BYTES, hipMemcpyHostToDevice, first));
    HIP(hipMemcpyAsync(device[1], device[0], BYTES, hipMemcpyDeviceToDevice, first));
    HIP(hipEventRecord(event, first));
    HIP(hipStreamWaitEvent(second, event, 0));
    HIP(hipMemcpyAsync(back, device[1], BYTES, hipMemcpyDeviceToHost, second));
    HIP(hipEventRecord(done, second));
    HIP(hipEventSynchronize(done));
    EXPECT(filled(back, BYTES, 4));
    EXPECT(hipEventQuery(event) == hipSuccess);

    HIP(hipExtMallocWithFlags((void **)&word, 8, hipMallocSignalMemory));
    HIP(hipStreamWriteValue32(first, word, 0, 0));
    HIP(hipStreamSynchronize(first));
    HIP(hipStreamWaitValue32(first, word, 5, hipStreamWaitValueEq, 0xffffffff));
    HIP(hipMemcpyAsync(device[1], host, SMALL, hipMemcpyHostToDevice, first));
    usleep(10000);
    EXPECT(hipStreamQuery(first) == hipErrorNotReady);
    HIP(hipStreamWriteValue32(second, word, 5, 0));
    HIP(hipStreamSynchronize(first));
    EXPECT(*word == 5);
    HIP(hipFree(word));
    HIP(hipStreamDestroy(first));
    HIP(hipStreamDestroy(second));
}

/* Memory of both devices is adjacent, at addresses that the program manages. */
#if HIP_VERSION_MAJOR >= 6
static void managed(void)
{
    hipMemGenericAllocationHandle_t handles[2];
    hipMemAccessDesc who[2];
    void *both;
    HIP(hipMemAddressReserve(&both, 2 * (size_t)MANAGED, 0, NULL, 0));
    for (int i = 0; i < 2; i++) {
        hipMemAllocationProp kind = {.type = hipMemAllocationTypePinned, .location = {hipMemLocationTypeDevice, i}};
        HIP(hipMemCreate(&handles[i], MANAGED, &kind, 0));
        HIP(hipMemMap((char *)both + (size_t)i * MANAGED, MANAGED, 0, handles[i], 0));
        who[i] = (hipMemAccessDesc){kind.location, hipMemAccessFlagsProtReadWrite};
    }
    for (int i = 0; i < 2; i++)
        HIP(hipMemSetAccess((char *)both + (size_t)i * MANAGED, MANAGED, who, 2));
    fill(host, 10);
    HIP(hipMemcpy(both, host, BYTES, hipMemcpyHostToDevice));
    HIP(hipMemcpy((char *)both + MANAGED, both, BYTES, hipMemcpyDeviceToDevice));
    memset(back, 0, BYTES);
    HIP(hipMemcpy(back, (char *)both + MANAGED, BYTES, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES, 10));
    for (int i = 0; i < 2; i++) {
        HIP(hipMemUnmap((char *)both + (size_t)i * MANAGED, MANAGED));
        HIP(hipMemRelease(handles[i]));
    }
    HIP(hipMemAddressFree(both, 2 * (size_t)MANAGED));
}
#endif

static int child(void)
{
    hipIpcMemHandle_t handle;
    hipPointerAttribute_t kind;
    unsigned char *theirs;
    EXPECT(read(0, &handle, sizeof handle) == sizeof handle);
    HIP(hipSetDevice(1));
    HIP(hipIpcOpenMemHandle((void **)&theirs, handle, hipIpcMemLazyEnablePeerAccess));
    /* HIP 5.7 searches the memory on the device with the owner's number in its own process, and does not find it. */
    hipError_t found = hipPointerGetAttributes(&kind, theirs);
    EXPECT(found == hipSuccess || (HIP_VERSION_MAJOR == 5 && HIP_VERSION_MINOR > 2 && found == hipErrorOutOfMemory));
    EXPECT(found != hipSuccess || (KIND(kind) == hipMemoryTypeDevice && kind.device == HOME(0, 1)));
    HIP(hipMalloc((void **)&device[1], BYTES));
    HIP(hipMemcpy(device[1], theirs, BYTES, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(back, device[1], BYTES, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES, 5));
    fill(back, 6);
    HIP(hipMemcpy(theirs, back, BYTES, hipMemcpyHostToDevice));
    HIP(hipIpcCloseMemHandle(theirs));
    return 0;
}

static void other_process(const char *self)
{
    hipIpcMemHandle_t handle;
    int pipes[2], status;
    fill(host, 5);
    HIP(hipMemcpy(device[0], host, BYTES, hipMemcpyHostToDevice));
    HIP(hipIpcGetMemHandle(&handle, device[0]));
    EXPECT(pipe(pipes) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[0], 0);
        execl(self, self, "child", NULL);
        _exit(9);
    }
    EXPECT(write(pipes[1], &handle, sizeof handle) == sizeof handle);
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    HIP(hipMemcpy(back, device[0], BYTES, hipMemcpyDeviceToHost));
    EXPECT(filled(back, BYTES, 6));
}

#ifdef DMA_HAVE_THUNK
/* A queue of the program copies HIP's memory to the other GPU. */
static void own_queue(void)
{
    struct raw_queue queue;
    char *done = (raw_open(), raw_allocate(0, PAGE, 1));
    HIP(hipMemset(device[0], 8, BYTES));
    HIP(hipMemset(device[1], 9, BYTES));
    HIP(hipDeviceSynchronize());
    raw_queue(&queue, 1, RAW_XGMI, 0);
    raw_copy(&queue, device[1], device[0], BYTES);
    raw_fence(&queue, done, 1);
    raw_ring(&queue);
    EXPECT(raw_wait(done, 1));
    raw_destroy(&queue);
    HIP(hipMemcpy(back, device[1], BYTES, hipMemcpyDeviceToHost));
    EXPECT(back[0] == 8 && back[BYTES - 1] == 8);
}

/* Queues of the program that wait on every engine of the links do not stop the runtime's queues, because engines change
 * queues. */
static void armed_queues(void)
{
    enum { QUEUES = 14 };
    struct raw_queue queues[QUEUES];
    char *words = raw_allocate(0, PAGE, 1);
    HIP(hipMemset(device[0], 6, BYTES));
    for (int i = 0; i < QUEUES; i++) {
        raw_queue(&queues[i], 1, RAW_XGMI, 0);
        raw_poll(&queues[i], words, 1);
        raw_fence(&queues[i], words + 64 + 64 * i, 1);
        raw_ring(&queues[i]);
    }
    HIP(hipMemcpy(device[1], device[0], BYTES, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(back, device[1], BYTES, hipMemcpyDeviceToHost));
    EXPECT(back[0] == 6 && back[BYTES - 1] == 6);
    for (int i = 0; i < QUEUES; i++)
        EXPECT(words[64 + 64 * i] == 0);
    __atomic_store_n((uint32_t *)words, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < QUEUES; i++) {
        EXPECT(raw_wait(words + 64 + 64 * i, 1));
        raw_destroy(&queues[i]);
    }
}

static int fault(void)
{
    struct raw_queue queue;
    HIP(hipMalloc((void **)&device[0], BYTES));
    raw_open();
    raw_queue(&queue, 1, RAW_XGMI, 0);
    raw_copy(&queue, (void *)0x123456000, device[0], PAGE);
    raw_ring(&queue);
    sleep(10);
    return 0;
}
#endif

int main(int argc, char **argv)
{
    int count, can;
    back = malloc(BYTES);
#ifdef DMA_HAVE_THUNK
    if (argc > 1 && strcmp(argv[1], "fault") == 0)
        return fault();
#endif
    if (argc > 1)
        return child();
    HIP(hipGetDeviceCount(&count));
    EXPECT(count == atoi(getenv("EMU_GPUS")));
    HIP(hipDeviceCanAccessPeer(&can, 0, 1));
    EXPECT(can);
    places(count);
    HIP(hipHostMalloc((void **)&host, BYTES, hipHostMallocDefault));
    for (int i = 1; i >= 0; i--) {
        HIP(hipSetDevice(i));
        HIP(hipMalloc((void **)&device[i], BYTES));
    }
    HIP(hipDeviceEnablePeerAccess(1, 0));
    copies();
    rectangles();
    pointers();
    registered();
    streams();
#if HIP_VERSION_MAJOR >= 6
    managed();
#endif
#ifdef DMA_HAVE_THUNK
    own_queue();
    armed_queues();
#endif
    other_process(argv[0]);
    HIP(hipFree(device[0]));
    HIP(hipFree(device[1]));
    HIP(hipHostFree(host));
    return 0;
}
