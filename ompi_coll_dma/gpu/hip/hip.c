/*
 * HIP: the library, its devices and errors.
 *
 * HIP initializes itself in its first call, whichever call that is. After that a forked child cannot use a GPU. So no
 * HIP call is made before the application has initialized HIP. ROCr, the layer below HIP, tells whether it has.
 */
#include "gpu/hip/hip.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

hip_calls_t dma_hip;
hsa_calls_t dma_hsa;
static hip_error_string_t error_string;
static dma_gpu_runtime_t table;

/* From HIP 6.2 on, PCI addresses contain the function, which differs between the partitions of a device. Older
 * versions report function 0. */
#define FUNCTION_VERSION 60200000

#define HIP_SYMBOL(name, required, ...) {#name, required},
static const dma_gpu_symbol_t hip_symbols[] = {HIP_CALLS(HIP_SYMBOL)};
static const dma_gpu_symbol_t hsa_symbols[] = {{"hsa_system_get_info", true}, {"hsa_amd_pointer_info", true}};
static const dma_gpu_symbol_t error_symbol = {"hipGetErrorString", true};

_Static_assert(sizeof(hip_symbols) / sizeof(hip_symbols[0]) * sizeof(void *) == sizeof(hip_calls_t), "one per call");
_Static_assert(sizeof(hsa_symbols) / sizeof(hsa_symbols[0]) * sizeof(void *) == sizeof(hsa_calls_t), "one per call");

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
    return dma_gpu_fail(status, "%s: %s (%u)", call, error_string(error), error);
}

dma_status_t dma_hip_try_status(hip_error_t error, const char *call)
{
    dma_status_t status = dma_hip_status(error, call);

    return status == DMA_ERR_ENGINE ? DMA_UNSUPPORTED : status;
}

static dma_status_t device_count(int *count)
{
    hip_error_t error;

    if (!dma_hip_is_initialized()) {
        return dma_gpu_fail(DMA_UNSUPPORTED, "HIP is not initialised");
    }
    error = dma_hip.hipGetDeviceCount(count);
    if (error == HIP_ERROR_NO_DEVICE) {
        dma_hip.hipGetLastError();
        *count = 0;
        return DMA_OK;
    }
    return dma_hip_status(error, "hipGetDeviceCount");
}

static dma_status_t device_pci(int device, dma_gpu_pci_t *pci)
{
    char text[32] = "";
    dma_status_t status = DMA_HIP(hipDeviceGetPCIBusId, text, sizeof(text), device);

    if (status != DMA_OK) {
        return status;
    }
    *pci = (dma_gpu_pci_t){.has_function = table.version >= FUNCTION_VERSION};
    if (sscanf(text, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &pci->function) != 4) {
        return dma_gpu_fail(DMA_ERR_ENGINE, "hipDeviceGetPCIBusId: \"%.31s\" is no PCI address", text);
    }
    return DMA_OK;
}

void dma_hip_capture_relax(dma_gpu_scope_t *scope)
{
    hip_enum_t mode = HIP_CAPTURE_RELAXED;

    *scope = (dma_gpu_scope_t){.previous = -1, .capture = -1};
    if (dma_hip.hipThreadExchangeStreamCaptureMode && DMA_HIP(hipThreadExchangeStreamCaptureMode, &mode) == DMA_OK) {
        scope->capture = (int)mode;
    }
}

void dma_hip_capture_restore(dma_gpu_scope_t *scope)
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
    dma_hip_capture_relax(scope);
    if ((status = set_device(device, scope)) == DMA_OK) {
        dma_gpu_guard_watch(&dma_hip_guard, device);
    } else {
        dma_hip_capture_restore(scope);
    }
    return status;
}

static dma_status_t enter_to_release(int device, dma_gpu_scope_t *scope)
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
    dma_hip_capture_restore(scope);
}

/* No `adopt`: HIP has the attribute since ROCm 5.5, but a copy waits only if both of its allocations have it (and not
 * before ROCm 6.2), and hipMemset inside an allocation that has it does not wait any more. */
static dma_gpu_runtime_t table = {
    .name = "hip",
    .device_count = device_count,
    .device_pci = device_pci,
    .enter = dma_hip_enter,
    .enter_to_release = enter_to_release,
    .leave = dma_hip_leave,
    .query = dma_hip_query,
    .is_lost = dma_hip_is_lost,
    .release = dma_hip_release,
};

/* The unversioned name is a development link, but some applications load that. */
const char *const dma_gpu_hip_libraries[] = {"libamdhip64.so.8", "libamdhip64.so.7", "libamdhip64.so.6",
                                             "libamdhip64.so.5", "libamdhip64.so",   NULL};

const dma_gpu_runtime_t *dma_gpu_hip_open(void)
{
    static const char *const hsa_names[] = {"libhsa-runtime64.so.1", "libhsa-runtime64.so", NULL};
    void *hip = dma_gpu_find_library(dma_gpu_hip_libraries), *hsa = hip ? dma_gpu_find_library(hsa_names) : NULL;
    int version = 0;

    /* If HIP loads ROCr on demand and has not done so, HIP is not initialized. */
    if (!hip || !hsa) {
        goto close;
    }
    if (!dma_gpu_find_symbols(hip, hip_symbols, sizeof(hip_symbols) / sizeof(hip_symbols[0]), &dma_hip) ||
        !dma_gpu_find_symbols(hip, &error_symbol, 1, &error_string) ||
        !dma_gpu_find_symbols(hsa, hsa_symbols, sizeof(hsa_symbols) / sizeof(hsa_symbols[0]), &dma_hsa)) {
        goto close;
    }
    /* returns a constant: does not initialize HIP */
    if (dma_hip.hipRuntimeGetVersion(&version) != HIP_DONE) {
        goto close;
    }
    table.version = (uint32_t)version;
    dma_hip_fill_memory(&table);
    dma_hip_fill_streams(&table);
    return &table;

close:
    if (hsa) {
        dlclose(hsa);
    }
    if (hip) {
        dlclose(hip);
    }
    return NULL;
}
