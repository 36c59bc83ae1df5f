/* HIP: errors, the current device, and resets of devices. */
#include "gpu/hip/hip.h"

hip_calls_t dma_hip;
hsa_calls_t dma_hsa;
hip_error_string_t dma_hip_error_string;

bool dma_hip_is_initialized(void)
{
    uint16_t major;

    return dma_hsa.system_get_info(HSA_INFO_VERSION_MAJOR, &major) == HSA_DONE;
}

dma_status_t dma_hip_status(hip_error_t error, const char *call)
{
    dma_status_t status;

    if (error == HIP_DONE) {
        return DMA_OK;
    }
    /* Clears HIP's last error: the application must not see an error of our calls. */
    dma_hip.hipGetLastError();
    if (error == HIP_ERROR_NOT_READY) {
        return DMA_AGAIN;
    }
    status = error == HIP_ERROR_OUT_OF_MEMORY   ? DMA_ERR_NOMEM
             : error == HIP_ERROR_NOT_SUPPORTED ? DMA_UNSUPPORTED
                                                : DMA_ERR_ENGINE;
    return dma_gpu_fail(status, "%s: %s (%u)", call, dma_hip_error_string(error), error);
}

dma_status_t dma_hip_try_status(hip_error_t error, const char *call)
{
    dma_status_t status = dma_hip_status(error, call);

    return status == DMA_ERR_ENGINE ? DMA_UNSUPPORTED : status;
}

static void capture_relax(dma_gpu_scope_t *scope)
{
    hip_enum_t mode = HIP_CAPTURE_RELAXED;

    *scope = (dma_gpu_scope_t){.previous = -1, .capture = -1};
    if (dma_hip.hipThreadExchangeStreamCaptureMode && DMA_HIP(hipThreadExchangeStreamCaptureMode, &mode) == DMA_OK) {
        scope->capture = (int)mode;
    }
}

static void capture_restore(dma_gpu_scope_t *scope)
{
    hip_enum_t mode = (hip_enum_t)scope->capture;

    if (scope->capture >= 0) {
        (void)DMA_HIP(hipThreadExchangeStreamCaptureMode, &mode);
        scope->capture = -1;
    }
}

static dma_status_t set_device(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status;
    int now;

    status = DMA_HIP(hipGetDevice, &now);
    if (status != DMA_OK || now == device) {
        return status;
    }
    status = DMA_HIP(hipSetDevice, device);
    if (status == DMA_OK) {
        scope->previous = now;
    }
    return status;
}

dma_status_t dma_hip_enter(int device, dma_gpu_scope_t *scope)
{
    dma_status_t status = dma_gpu_guard_check(&dma_hip_guard, device);

    if (status != DMA_OK) {
        return status;
    }
    capture_relax(scope);
    if ((status = set_device(device, scope)) == DMA_OK) {
        dma_gpu_guard_watch(&dma_hip_guard, device);
    } else {
        capture_restore(scope);
    }
    return status;
}

dma_status_t dma_hip_enter_to_release(int device, dma_gpu_scope_t *scope)
{
    dma_gpu_guard_detect(&dma_hip_guard);
    return dma_hip_enter(device, scope);
}

void dma_hip_leave(dma_gpu_scope_t *scope)
{
    if (scope->previous >= 0) {
        (void)DMA_HIP(hipSetDevice, scope->previous);
        scope->previous = -1;
    }
    capture_restore(scope);
}

/* ---- the markers by which resets are detected (gpu/reset.h) ---- */

static dma_status_t make_marker(uint64_t *addr)
{
    void *made = NULL;
    dma_status_t status = DMA_HIP_TRY(hipMalloc, &made, DMA_GPU_MARKER_BYTES);

    *addr = (uintptr_t)made;
    return status;
}

/* HIP gives an id to one allocation only. */
static void get_id(int device, uint64_t addr, uint64_t *id)
{
    hip_enum_t names[] = {HIP_ATTRIBUTE_DEVICE_ORDINAL, HIP_ATTRIBUTE_BUFFER_ID};
    uint64_t ordinal = 0, seen = 0;
    void *data[] = {&ordinal, &seen};
    bool known = dma_hip.hipDrvPointerGetAttributes(2, names, data, (void *)(uintptr_t)addr) == HIP_DONE;

    (void)device;
    *id = known && (int32_t)ordinal >= 0 ? seen : 0;
}

static void free_marker(uint64_t addr)
{
    (void)DMA_HIP_TRY(hipFree, (void *)(uintptr_t)addr);
}

static const dma_gpu_marker_ops_t ops = {.make = make_marker, .get_id = get_id, .free = free_marker};

dma_gpu_guard_t dma_hip_guard = DMA_GPU_GUARD(&ops);

bool dma_hip_is_lost(int device)
{
    return dma_gpu_guard_is_lost(&dma_hip_guard, device);
}
