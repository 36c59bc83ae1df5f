/*
 * HIP: the library and its devices.
 *
 * HIP initializes itself in its first call, whichever call that is. After that a forked child cannot use a GPU. So no
 * HIP call is made before the application has initialized HIP. ROCr, the layer below HIP, tells whether it has.
 */
#include "gpu/hip/hip.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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

/* No `adopt`: HIP has the attribute since ROCm 5.5, but a copy waits only if both of its allocations have it (and not
 * before ROCm 6.2), and hipMemset inside an allocation that has it does not wait any more. */
static dma_gpu_runtime_t table = {
    .name = "hip",
    .device_count = device_count,
    .device_pci = device_pci,
    .enter = dma_hip_enter,
    .enter_to_release = dma_hip_enter_to_release,
    .leave = dma_hip_leave,
    .query = dma_hip_query,
    .is_lost = dma_hip_is_lost,
};

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
        !dma_gpu_find_symbols(hip, &error_symbol, 1, &dma_hip_error_string) ||
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
