/*
 * Replaces libamdhip64.so.6 and, in one library, libhsa-runtime64.so.1, which is a link to it: versions, and the answers of
 * both about an address.
 */
#include <string.h>

#include "fake_driver.h"
#include "gpu/hip/api.h"

extern fake_driver_t fake_driver;
fake_driver_t fake_driver = {.version = 60300000};

#define DECLARE(name, required, ...) hip_error_t name(__VA_ARGS__);
HIP_CALLS(DECLARE)
const char *hipGetErrorString(hip_error_t error);
uint32_t hsa_system_get_info(uint32_t what, void *value);
uint32_t hsa_amd_pointer_info(const void *ptr, hsa_pointer_info_t *info, void *(*alloc)(size_t), uint32_t *n_agents,
                              void **agents);

hip_error_t hipRuntimeGetVersion(int *version)
{
    *version = fake_driver.version;
    return HIP_DONE;
}

const char *hipGetErrorString(hip_error_t error)
{
    return error == HIP_ERROR_OUT_OF_MEMORY ? "out of memory" : "something else";
}

hip_error_t hipGetDeviceCount(int *count)
{
    fake_driver.calls++;
    *count = 2;
    return fake_driver.error;
}

/* The second is a partition of the same device as the first. */
hip_error_t hipDeviceGetPCIBusId(char *text, int bytes, int device)
{
    strncpy(text, device && fake_driver.version >= 60200000 ? "0001:c1:1f.3" : "0001:c1:1f.0", (size_t)bytes);
    return HIP_DONE;
}

/* As in the real one: "success" for any address; for an unknown one the type must not be asked for. */
hip_error_t hipDrvPointerGetAttributes(unsigned n, hip_enum_t *attributes, void **data, void *ptr)
{
    bool known = (uintptr_t)ptr - fake_driver.base < fake_driver.size;

    fake_driver.calls++;
    fake_driver.queries++;
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        size_t bytes = 4;

        switch (attributes[i]) {
        case HIP_ATTRIBUTE_MEMORY_TYPE:
            if (!known) {
                __builtin_trap();
            }
            value = fake_driver.type;
            break;
        case HIP_ATTRIBUTE_IS_MANAGED:
            value = fake_driver.managed;
            bytes = 1;
            break;
        case HIP_ATTRIBUTE_DEVICE_ORDINAL:
            value = known ? fake_driver.ordinal : (uint64_t)-2;
            break;
        case HIP_ATTRIBUTE_BUFFER_ID:
            value = fake_driver.id;
            break;
        case HIP_ATTRIBUTE_RANGE_SIZE:
            value = fake_driver.size;
            break;
        case HIP_ATTRIBUTE_MEMPOOL_HANDLE:
            value = fake_driver.pool;
            bytes = 8;
            break;
        }
        value = known || attributes[i] == HIP_ATTRIBUTE_DEVICE_ORDINAL ? value : 0;
        memcpy(data[i], &value, bytes);
    }
    return HIP_DONE;
}

static _Thread_local hip_enum_t capture_mode;

hip_error_t hipThreadExchangeStreamCaptureMode(hip_enum_t *mode)
{
    hip_enum_t was = capture_mode;

    fake_driver.calls++;
    capture_mode = *mode;
    *mode = was;
    return HIP_DONE;
}

/* A call that invalidates a capture, unless the calling thread has set another capture mode. */
static hip_error_t unsafe(void)
{
    if (!fake_driver.capturing || capture_mode == HIP_CAPTURE_RELAXED) {
        return HIP_DONE;
    }
    fake_driver.spoilt++;
    return 900;
}

hip_error_t hipHostRegister(void *ptr, size_t bytes, unsigned flags)
{
    (void)ptr;
    (void)bytes;
    (void)flags;
    return unsafe();
}

hip_error_t hipEventQuery(struct ihipEvent_t *event)
{
    (void)event;
    return unsafe();
}

/* Two kinds of events, by whether they have a time. */
hip_error_t hipEventCreateWithFlags(struct ihipEvent_t **event, unsigned flags)
{
    *event = (struct ihipEvent_t *)(uintptr_t)(flags & HIP_EVENT_DISABLE_TIMING ? 8 : 16);
    return unsafe();
}

hip_error_t hipEventElapsedTime(float *ms, struct ihipEvent_t *from, struct ihipEvent_t *to)
{
    *ms = 1.5f;
    return (uintptr_t)from == 16 && (uintptr_t)to == 16 ? HIP_DONE : 400;
}

hip_error_t hipStreamCreateWithFlags(struct ihipStream_t **stream, unsigned flags)
{
    *stream = (struct ihipStream_t *)(uintptr_t)(flags + 1);
    return unsafe();
}

hip_error_t hipStreamDestroy(struct ihipStream_t *stream)
{
    (void)stream;
    return unsafe();
}

hip_error_t hipIpcOpenMemHandle(void **ptr, hip_ipc_handle_t handle, unsigned flags)
{
    (void)handle;
    fake_driver.open_flags = flags;
    *ptr = (void *)4096;
    return unsafe();
}

hip_error_t hipMalloc(void **ptr, size_t bytes)
{
    (void)ptr;
    (void)bytes;
    (void)unsafe();
    fake_driver.calls++;
    return fake_driver.last_error = HIP_ERROR_OUT_OF_MEMORY;
}

hip_error_t hipGetLastError(void)
{
    hip_error_t error = fake_driver.last_error;

    fake_driver.last_error = HIP_DONE;
    return error;
}

hip_error_t hipGetDevice(int *device)
{
    *device = fake_driver.device;
    return HIP_DONE;
}

hip_error_t hipSetDevice(int device)
{
    fake_driver.device = device;
    return HIP_DONE;
}

hip_error_t hipStreamQuery(struct ihipStream_t *stream)
{
    (void)stream;
    return unsafe() == HIP_DONE ? HIP_ERROR_NOT_READY : 900;
}

uint32_t hsa_system_get_info(uint32_t what, void *value)
{
    (void)what;
    *(uint16_t *)value = 1;
    return fake_driver.closed ? 0x100b : HSA_DONE;
}

uint32_t hsa_amd_pointer_info(const void *ptr, hsa_pointer_info_t *info, void *(*alloc)(size_t), uint32_t *n_agents,
                              void **agents)
{
    (void)ptr;
    (void)alloc;
    (void)n_agents;
    (void)agents;
    fake_driver.queries++;
    info->type = fake_driver.hsa_type;
    info->host_base = (void *)(uintptr_t)fake_driver.base;
    info->agent_base = (void *)(uintptr_t)(fake_driver.hsa_agent ? fake_driver.hsa_agent : fake_driver.base);
    info->bytes = fake_driver.hsa_size;
    info->flags = fake_driver.hsa_flags;
    return HSA_DONE;
}
