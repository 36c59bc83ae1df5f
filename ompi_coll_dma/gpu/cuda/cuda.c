/* CUDA: the driver library and its devices. */
#include "gpu/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>

#define CUDA_SYMBOL(name, symbol, required, ...) {#symbol, required},
static const dma_gpu_symbol_t symbols[] = {CUDA_CALLS(CUDA_SYMBOL) CUDA_OLD_CALLS(CUDA_SYMBOL)};

_Static_assert(sizeof(symbols) / sizeof(symbols[0]) * sizeof(void *) == sizeof(cuda_calls_t), "one per call");

static dma_status_t device_count(int *count)
{
    cuda_error_t error = dma_cuda.device_get_count(count);

    if (error == CUDA_NO_DEVICE) {
        *count = 0;
        return DMA_OK;
    }
    return error == CUDA_NOT_INITIALIZED ? dma_gpu_fail(DMA_UNSUPPORTED, "CUDA is not initialised")
                                         : dma_cuda_status(error, "device_get_count");
}

static dma_status_t device_pci(int device, dma_gpu_pci_t *pci)
{
    char text[32] = "";
    dma_status_t status;
    cuda_device_t dev;

    status = DMA_CUDA(device_get, &dev, device);
    if (status == DMA_OK) {
        status = DMA_CUDA(device_get_pci_bus_id, text, sizeof(text), dev);
    }
    if (status != DMA_OK) {
        return status;
    }
    *pci = (dma_gpu_pci_t){0};
    if (sscanf(text, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) {
        return dma_gpu_fail(DMA_ERR_ENGINE, "cuDeviceGetPCIBusId: \"%.31s\" is no PCI address", text);
    }
    return DMA_OK;
}

/* Without MPS they do. Drivers that do not know this attribute, before 12.2, are assumed to. */
static bool takes_turns(int device)
{
    cuda_device_t dev;
    int mps = 0;

    return !dma_cuda.device_attribute || DMA_CUDA(device_get, &dev, device) != DMA_OK ||
           DMA_CUDA_TRY(device_attribute, &mps, CUDA_DEVICE_MPS, dev) != DMA_OK || !mps;
}

static dma_gpu_runtime_t table = {
    .name = "cuda",
    .device_count = device_count,
    .device_pci = device_pci,
    .takes_turns = takes_turns,
    .enter = dma_cuda_enter,
    .enter_to_release = dma_cuda_enter_to_release,
    .leave = dma_cuda_leave,
    .is_lost = dma_cuda_is_lost,
};

const dma_gpu_runtime_t *dma_gpu_cuda_open(void)
{
    void *library = dma_gpu_find_library(dma_gpu_cuda_libraries);
    int version = 0;

    if (!library) {
        return NULL;
    }
    if (!dma_gpu_find_symbols(library, symbols, sizeof(symbols) / sizeof(symbols[0]), &dma_cuda)) {
        goto close;
    }
    /* works whether or not the driver is initialized */
    if (dma_cuda.driver_get_version(&version) != CUDA_DONE || version < CUDA_OLDEST_DRIVER) {
        dma_gpu_fail(DMA_UNSUPPORTED, "CUDA driver %d is older than %d", version, CUDA_OLDEST_DRIVER);
        goto close;
    }
    table.version = (uint32_t)version;
    dma_cuda_fill_queries(&table);
    dma_cuda_fill_memory(&table);
    dma_cuda_fill_mapped(&table);
    dma_cuda_fill_streams(&table);
    dma_cuda_fill_graphs(&table);
    return &table;

close:
    dlclose(library);
    return NULL;
}
