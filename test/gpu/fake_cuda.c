/* Replaces libcuda.so.1: versions, contexts, and the answers about an address. Objects are in fake_cuda_objects.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

fake_driver_t fake_driver = {.version = 12080};

/* Primary contexts. The application uses device 1. A handle is a number: the device, and with `new_handles` also how
 * often it was reset. */
static struct context {
    bool active;
    unsigned held, resets;
} primary[FAKE_CUDA_DEVICES] = {[1] = {.active = true, .held = 1}};

static _Thread_local uintptr_t stack[16];
static _Thread_local int top;
static _Thread_local cuda_enum_t capture_mode;

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

int fake_lock(void)
{
    return pthread_mutex_lock(&lock);
}

void fake_unlock(int *locked)
{
    (void)locked;
    pthread_mutex_unlock(&lock);
}

static uintptr_t handle_of(int device)
{
    return 0x1000u + 0x100u * (unsigned)device + (fake_driver.new_handles ? primary[device].resets : 0);
}

static int device_of(uintptr_t handle)
{
    return (int)(handle >> 8 & 0xf);
}

unsigned fake_resets(int device)
{
    return primary[device].resets;
}

bool fake_is_active(int device)
{
    return primary[device].active;
}

cuda_error_t fake_current(int *device)
{
    FAKE_LOCKED;

    if (top == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    *device = device_of(stack[top - 1]);
    return primary[*device].active && stack[top - 1] == handle_of(*device) ? CUDA_DONE : CUDA_CONTEXT_DESTROYED;
}

cuda_error_t cuThreadExchangeStreamCaptureMode(cuda_enum_t *mode)
{
    cuda_enum_t was = capture_mode;
    FAKE_LOCKED;

    fake_driver.calls++;
    capture_mode = *mode;
    *mode = was;
    return CUDA_DONE;
}

/* A call that invalidates a capture, unless the calling thread has set another capture mode. */
static cuda_error_t unsafe(void)
{
    if (!fake_driver.capturing || capture_mode == CUDA_CAPTURE_RELAXED) {
        return CUDA_DONE;
    }
    fake_driver.spoilt++;
    return 900;
}

cuda_error_t fake_unsafe(int *device)
{
    cuda_error_t error = unsafe();

    return error == CUDA_DONE ? fake_current(device) : error;
}

cuda_error_t cuDriverGetVersion(int *version)
{
    *version = fake_driver.version;
    return CUDA_DONE;
}

cuda_error_t cuGetErrorString(cuda_error_t error, const char **text)
{
    *text = error == CUDA_NOT_INITIALIZED ? "not initialised" : "something else";
    return CUDA_DONE;
}

cuda_error_t cuDeviceGetCount(int *count)
{
    *count = FAKE_CUDA_DEVICES;
    return fake_driver.error;
}

cuda_error_t cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return fake_driver.closed ? CUDA_DEINITIALIZED : CUDA_DONE;
}

cuda_error_t cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
    strncpy(text, device ? "0001:C1:00.0" : "0000:0A:1F.0", (size_t)bytes);
    return CUDA_DONE;
}

/* ---- contexts ---- */

cuda_error_t cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    FAKE_LOCKED;

    (void)unsafe();
    fake_driver.retained++;
    primary[device].held++;
    if (!primary[device].active) {
        fake_driver.activated++;
    }
    primary[device].active = true;
    *context = (struct CUctx_st *)handle_of(device);
    return CUDA_DONE;
}

/* Everything in the context is destroyed. */
static void clear(int device)
{
    primary[device].active = false;
    primary[device].resets++;
    fake_forget_addresses(device);
}

cuda_error_t cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)unsafe();
    if (primary[device].held == 0) {
        fprintf(stderr, "fake CUDA: the context of device %d is released more often than retained\n", device);
        abort();
    }
    fake_driver.retained--;
    if (--primary[device].held == 0) {
        clear(device);
    }
    return CUDA_DONE;
}

/* The application's cudaDeviceReset. Earlier retains do not count any more: the worst that a driver can do. */
cuda_error_t cuDevicePrimaryCtxReset_v2(int device);
cuda_error_t cuDevicePrimaryCtxReset_v2(int device)
{
    fake_driver.retained -= primary[device].held - (device == 1 && primary[1].resets == 0);
    primary[device].held = 0;
    clear(device);
    return CUDA_DONE;
}

cuda_error_t cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    FAKE_LOCKED;

    *flags = 0;
    *active = primary[device].active;
    return CUDA_DONE;
}

cuda_error_t cuCtxGetCurrent(struct CUctx_st **context)
{
    *context = (struct CUctx_st *)(top ? stack[top - 1] : 0);
    return CUDA_DONE;
}

cuda_error_t cuCtxGetDevice(int *device)
{
    return fake_current(device);
}

/* A context that was reset can be pushed, and does not work then. If it has another handle now, it cannot be pushed. */
cuda_error_t cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    FAKE_LOCKED;

    if ((uintptr_t)context != handle_of(device_of((uintptr_t)context))) {
        return CUDA_CONTEXT_DESTROYED;
    }
    fake_driver.calls++;
    stack[top++] = (uintptr_t)context;
    return CUDA_DONE;
}

cuda_error_t cuCtxPopCurrent_v2(struct CUctx_st **context)
{
    *context = (struct CUctx_st *)stack[--top];
    return CUDA_DONE;
}

/* ---- what an address is ---- */

static bool known(uint64_t addr)
{
    return addr - fake_driver.base < fake_driver.size;
}

/* What is at an address: the range of the test, or memory of this library. */
static fake_driver_t describe(uint64_t addr)
{
    fake_driver_t says = {0};
    fake_mapping_t mapping;
    fake_memory_t m;

    if (known(addr)) {
        return fake_driver;
    }
    if (fake_find_memory(addr, &m)) {
        says.base = m.base;
        says.size = m.size;
        says.id = m.id;
        says.ordinal = (uint64_t)m.device;
        says.type = CUDA_TYPE_DEVICE;
        says.ipc = 1;
    } else if (fake_find_mapping(addr, &mapping)) {
        says.base = mapping.range;
        says.size = mapping.range_size;
        says.id = mapping.range_id;
        says.ordinal = (uint64_t)mapping.device;
        says.type = CUDA_TYPE_DEVICE;
    }
    return says;
}

/* Attributes of what is mapped at an address. */
static uint64_t attribute_of_mapping(cuda_enum_t attribute, const fake_mapping_t *m)
{
    switch (attribute) {
    case CUDA_ATTRIBUTE_MAPPING_BASE:
        return m->base;
    case CUDA_ATTRIBUTE_MAPPING_SIZE:
        return m->size;
    case CUDA_ATTRIBUTE_BLOCK_ID:
        return m->id;
    default:
        return m->types;
    }
}

cuda_error_t cuPointerGetAttributes(unsigned n, cuda_enum_t *attributes, void **data, cuda_addr_t ptr)
{
    FAKE_LOCKED;
    fake_driver_t says = describe(ptr);
    fake_mapping_t mapping = {0};
    cuda_error_t error;
    int device;

    fake_driver.queries++;
    error = fake_driver.error ? fake_driver.error : fake_current(&device);
    if (error && (error != CUDA_INVALID_CONTEXT || fake_driver.needs_context)) {
        return error;
    }
    (void)fake_find_mapping(ptr, &mapping);
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        size_t bytes = 4;

        switch (attributes[i]) {
        case CUDA_ATTRIBUTE_MEMORY_TYPE:
            value = says.type;
            break;
        case CUDA_ATTRIBUTE_IS_MANAGED:
            value = says.managed;
            bytes = 1;
            break;
        case CUDA_ATTRIBUTE_DEVICE_ORDINAL:
            value = says.ordinal;
            break;
        case CUDA_ATTRIBUTE_IPC_CAPABLE:
            value = says.ipc;
            break;
        case CUDA_ATTRIBUTE_BUFFER_ID:
            value = says.id;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_DEVICE_POINTER:
            value = says.size ? ptr : 0;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_RANGE_START:
            value = says.base;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_RANGE_SIZE:
            value = says.size;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_BLOCK_ID:
            if (fake_driver.no_blocks) {
                return 1;
            }
            __attribute__((fallthrough));
        case CUDA_ATTRIBUTE_MAPPING_BASE:
        case CUDA_ATTRIBUTE_MAPPING_SIZE:
            bytes = 8;
            __attribute__((fallthrough));
        case CUDA_ATTRIBUTE_ALLOWED_HANDLES:
            value = attribute_of_mapping(attributes[i], &mapping);
            break;
        case CUDA_ATTRIBUTE_MEMPOOL_HANDLE:
            value = says.pool;
            bytes = 8;
            break;
        }
        memcpy(data[i], &value, bytes);
    }
    return CUDA_DONE;
}

/* ---- copies whose bytes arrive late ---- */

/* A synchronous copy of the application from pageable memory. Its bytes arrive late, except in memory whose copies wait. */
static struct {
    cuda_addr_t to;
    unsigned char data[64];
    size_t bytes;
} late;
static uint64_t waits_id; /* of the memory whose copies wait */

void fake_copies_arrive(void)
{
    if (late.bytes) {
        memcpy((void *)(uintptr_t)late.to, late.data, late.bytes);
    }
    late.bytes = 0;
}

cuda_error_t cuMemcpyHtoD_v2(cuda_addr_t to, const void *from, size_t bytes);
cuda_error_t cuMemcpyHtoD_v2(cuda_addr_t to, const void *from, size_t bytes)
{
    memcpy(late.data, from, bytes);
    late.to = to;
    late.bytes = bytes;
    if (waits_id == fake_driver.id) {
        fake_copies_arrive();
    }
    return CUDA_DONE;
}

cuda_error_t cuPointerSetAttribute(const void *value, cuda_enum_t attribute, cuda_addr_t ptr)
{
    cuda_error_t error;
    int device;

    fake_driver.adopted++;
    if ((error = fake_unsafe(&device)) != CUDA_DONE) {
        return error;
    }
    if (fake_driver.refuses || attribute != CUDA_ATTRIBUTE_SYNC_MEMOPS || *(const unsigned *)value != 1 ||
        !describe(ptr).size) {
        return 1;
    }
    waits_id = fake_driver.id;
    fake_copies_arrive();
    return CUDA_DONE;
}
