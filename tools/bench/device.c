/* A test program's GPU: see device.h. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/internal.h"
#include "gpu/runtime.h"
#include "tools/bench/device.h"

static const dma_gpu_runtime_t *rt;
static int device;

static void *load(const char *runtime, const char **start)
{
    const char *const *lists[] = {dma_gpu_cuda_libraries, dma_gpu_hip_libraries};
    static const char *const names[] = {"cuda", "hip"}, *const starts[] = {"cuInit", "hipInit"};

    for (int i = 0; i < 2; i++) {
        for (const char *const *name = lists[i]; *name && (!runtime || !strcmp(runtime, names[i])); name++) {
            void *library = dlopen(*name, RTLD_NOW | RTLD_GLOBAL);

            if (library) {
                *start = starts[i];
                return library;
            }
        }
    }
    return NULL;
}

const char *device_open(const char *runtime, int index)
{
    static dma_gpu_scope_t scope;
    const char *start = "";
    void *library = load(runtime, &start);
    unsigned (*init)(unsigned);
    int count = 0;

    if (!library) {
        return "no GPU runtime can be loaded";
    }
    *(void **)&init = dlsym(library, start);
    if (!init || init(0) != 0) {
        return "the GPU runtime does not start";
    }
    rt = dma_gpu_runtime_loaded();
    if (!rt || rt->device_count(&count) != DMA_OK || !count) {
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

int device_index(void)
{
    return device;
}

void device_pci(char *text, size_t room)
{
    dma_gpu_pci_t pci = {0};

    must(rt->device_pci(device, &pci), "device_pci");
    snprintf(text, room, "%08x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
}
