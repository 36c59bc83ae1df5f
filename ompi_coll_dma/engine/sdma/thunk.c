/* The search for the thunk: see thunk.h. */
#include "engine/sdma/thunk.h"

#include <dlfcn.h>

#include "gpu/internal.h"

/* In the order of dma_thunk_t. */
static const dma_gpu_symbol_t symbols[] = {
    {"hsaKmtOpenKFD", true},     {"hsaKmtCloseKFD", true},       {"hsaKmtAllocMemory", true},
    {"hsaKmtFreeMemory", true},  {"hsaKmtMapMemoryToGPU", true}, {"hsaKmtUnmapMemoryToGPU", true},
    {"hsaKmtCreateQueue", true}, {"hsaKmtDestroyQueue", true},
};

_Static_assert(sizeof(symbols) / sizeof(symbols[0]) * sizeof(void *) == sizeof(dma_thunk_t), "one per function");

dma_status_t dma_thunk_find(dma_thunk_t *thunk, const char **reason)
{
    static const char *const names[] = {"libhsakmt.so.1", NULL};
    void *library = dma_gpu_find_library(names);

    if (!library) {
        *reason = "ROCr has no libhsakmt of its own in this process";
        return DMA_UNSUPPORTED;
    }
    if (!dma_gpu_find_symbols(library, symbols, sizeof(symbols) / sizeof(symbols[0]), thunk)) {
        *reason = "this version of libhsakmt lacks a function";
        dlclose(library);
        return DMA_UNSUPPORTED;
    }
    /* The reference to the library is kept: its functions are used until the process ends. */
    return DMA_OK;
}
