/* The GPU of a test program: see device.h. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/runtime.h"
#include "tools/bench/device.h"
#include "tools/gpu_start.h"

static const dma_gpu_runtime_t *rt;
static int device;

const char *device_open(const char *runtime, int index)
{
    static dma_gpu_scope_t scope;
    const char *why = gpu_start(runtime, &rt);
    int count = 0;

    if (why) {
        return why;
    }
    if (rt->device_count(&count) != DMA_OK || !count) {
        return "there is no GPU";
    }
    device = index % count;
    return rt->enter(device, &scope) == DMA_OK ? NULL : dma_gpu_error();
}

static void must(dma_status_t status, const char *what)
{
    if (status != DMA_OK) {
        fprintf(stderr, "device: %s: %s (%s)\n", what, dma_status_name(status), dma_gpu_error());
        abort();
    }
}

void *device_alloc(size_t bytes)
{
    dma_gpu_scope_t scope;
    uint64_t addr = 0;

    must(rt->enter(device, &scope), "enter");
    must(rt->alloc(bytes, &addr), "alloc");
    rt->leave(&scope);
    return (void *)(uintptr_t)addr;
}

void device_free(void *addr)
{
    dma_gpu_scope_t scope;

    must(rt->enter(device, &scope), "enter");
    must(rt->free((uintptr_t)addr), "free");
    rt->leave(&scope);
}

void device_copy(void *to, const void *from, size_t bytes)
{
    dma_gpu_scope_t scope;

    must(rt->enter(device, &scope), "enter");
    must(rt->copy((uintptr_t)to, (uintptr_t)from, bytes), "copy");
    rt->leave(&scope);
}

bool device_is_cuda(void)
{
    return !strcmp(rt->name, "cuda");
}

int device_index(void)
{
    return device;
}

device_pci_t device_pci(void)
{
    dma_gpu_pci_t pci = {0};

    must(rt->device_pci(device, &pci), "device_pci");
    return (device_pci_t){pci.domain, pci.bus, pci.device};
}
