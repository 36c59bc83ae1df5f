/* Stands in for libcuda.so.1: versions, contexts, and what it says about an address. */
#include <string.h>

#include "fake_driver.h"
#include "gpu/cuda/api.h"

extern fake_driver_t fake_driver;
fake_driver_t fake_driver = {.version = 12080};

#define DECLARE(name, symbol, required, ...) cuda_error_t symbol(__VA_ARGS__);
CUDA_CALLS(DECLARE)

/* A context is a number from 1: the device, and how often it was retained. */
static _Thread_local uintptr_t stack[16];
static _Thread_local int top;
static bool held[2]; /* primary contexts */
static _Thread_local cuda_enum_t capture_mode;

cuda_error_t cuThreadExchangeStreamCaptureMode(cuda_enum_t *mode)
{
    cuda_enum_t was = capture_mode;

    fake_driver.calls++;
    capture_mode = *mode;
    *mode = was;
    return CUDA_DONE;
}

/* What spoils a capture, unless the calling thread has said that it is about something else. */
static cuda_error_t unsafe(void)
{
    if (!fake_driver.capturing || capture_mode == CUDA_CAPTURE_RELAXED) {
        return CUDA_DONE;
    }
    fake_driver.spoilt++;
    return 900;
}

cuda_error_t cuMemAlloc_v2(cuda_addr_t *ptr, size_t bytes)
{
    *ptr = bytes;
    return unsafe();
}

cuda_error_t cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned flags)
{
    (void)ptr;
    (void)bytes;
    (void)flags;
    return unsafe();
}

cuda_error_t cuIpcOpenMemHandle_v2(cuda_addr_t *ptr, cuda_ipc_handle_t handle, unsigned flags)
{
    (void)handle;
    *ptr = flags;
    return unsafe();
}

cuda_error_t cuEventQuery(struct CUevent_st *event)
{
    (void)event;
    return unsafe();
}

cuda_error_t cuStreamDestroy_v2(struct CUstream_st *stream)
{
    (void)stream;
    return unsafe();
}

cuda_error_t cuStreamCreate(struct CUstream_st **stream, unsigned flags)
{
    *stream = (struct CUstream_st *)(uintptr_t)(flags + 1);
    return unsafe();
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
    *count = 2;
    return fake_driver.error;
}

cuda_error_t cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return CUDA_DONE;
}

cuda_error_t cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
    strncpy(text, device ? "0001:C1:00.0" : "0000:0A:1F.0", (size_t)bytes);
    return CUDA_DONE;
}

cuda_error_t cuDevicePrimaryCtxRetain(struct CUctx_st **context, int device)
{
    (void)unsafe();
    fake_driver.retained++;
    fake_driver.reset = false;
    held[device] = true;
    *context = (struct CUctx_st *)(uintptr_t)(0x1000u + 0x100u * (unsigned)device + fake_driver.retained);
    return CUDA_DONE;
}

cuda_error_t cuDevicePrimaryCtxRelease_v2(int device)
{
    (void)unsafe();
    held[device] = false;
    fake_driver.retained--;
    return CUDA_DONE;
}

cuda_error_t cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
    *flags = 0;
    *active = !fake_driver.reset && (device == 1 || held[device]);
    return CUDA_DONE;
}

cuda_error_t cuCtxGetCurrent(struct CUctx_st **context)
{
    *context = (struct CUctx_st *)(top ? stack[top - 1] : 0);
    return CUDA_DONE;
}

cuda_error_t cuCtxGetDevice(int *device)
{
    *device = top ? (int)(stack[top - 1] >> 8 & 0xf) : 0;
    return top ? CUDA_DONE : CUDA_INVALID_CONTEXT;
}

cuda_error_t cuCtxPushCurrent_v2(struct CUctx_st *context)
{
    if (fake_driver.stale && ((uintptr_t)context & 0xff) == 1) {
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

static bool known(uint64_t addr)
{
    return addr - fake_driver.base < fake_driver.size;
}

cuda_error_t cuPointerGetAttributes(unsigned n, cuda_enum_t *attributes, void **data, cuda_addr_t ptr)
{
    fake_driver.queries++;
    if (fake_driver.error || (fake_driver.needs_context && top == 0)) {
        return fake_driver.error ? fake_driver.error : CUDA_INVALID_CONTEXT;
    }
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        size_t bytes = 4;

        switch (attributes[i]) {
        case CUDA_ATTRIBUTE_MEMORY_TYPE:
            value = fake_driver.type;
            break;
        case CUDA_ATTRIBUTE_IS_MANAGED:
            value = fake_driver.managed;
            bytes = 1;
            break;
        case CUDA_ATTRIBUTE_DEVICE_ORDINAL:
            value = fake_driver.ordinal;
            break;
        case CUDA_ATTRIBUTE_IPC_CAPABLE:
            value = fake_driver.ipc;
            break;
        case CUDA_ATTRIBUTE_BUFFER_ID:
            value = fake_driver.id;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_DEVICE_POINTER:
            value = ptr;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_RANGE_START:
            value = fake_driver.base;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_RANGE_SIZE:
            value = fake_driver.size;
            bytes = 8;
            break;
        case CUDA_ATTRIBUTE_MEMPOOL_HANDLE:
            value = fake_driver.pool;
            bytes = 8;
            break;
        }
        value = known(ptr) ? value : 0;
        memcpy(data[i], &value, bytes);
    }
    return CUDA_DONE;
}

/* A synchronous copy of the application, from pageable memory: its bytes come late, except into memory whose copies
 * wait. */
static struct {
    cuda_addr_t to;
    unsigned char data[64];
    size_t bytes;
} late;
static uint64_t waits_id; /* of the memory whose copies wait */

cuda_error_t cuMemcpyHtoD_v2(cuda_addr_t to, const void *from, size_t bytes);
cuda_error_t cuMemcpyHtoD_v2(cuda_addr_t to, const void *from, size_t bytes)
{
    memcpy(late.data, from, bytes);
    late.to = to;
    late.bytes = bytes;
    return waits_id == fake_driver.id ? cuStreamSynchronize(NULL) : CUDA_DONE;
}

cuda_error_t cuPointerSetAttribute(const void *value, cuda_enum_t attribute, cuda_addr_t ptr)
{
    fake_driver.adopted++;
    if (top == 0) {
        return CUDA_INVALID_CONTEXT;
    }
    if (unsafe() != CUDA_DONE || fake_driver.refuses || attribute != CUDA_ATTRIBUTE_SYNC_MEMOPS ||
        *(const unsigned *)value != 1 || !known(ptr)) {
        return 1;
    }
    waits_id = fake_driver.id;
    return cuStreamSynchronize(NULL);
}

cuda_error_t cuStreamSynchronize(struct CUstream_st *stream)
{
    (void)stream;
    if (late.bytes) {
        memcpy((void *)(uintptr_t)late.to, late.data, late.bytes);
    }
    late.bytes = 0;
    return fake_driver.reset ? CUDA_CONTEXT_DESTROYED : CUDA_DONE;
}

cuda_error_t cuMemRetainAllocationHandle(cuda_addr_t *handle, void *ptr)
{
    (void)ptr;
    (void)unsafe();
    fake_driver.queries++;
    *handle = 1;
    return fake_driver.vmm ? CUDA_DONE : 1;
}
