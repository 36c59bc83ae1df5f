/* The search for the thunk: see thunk.h. */
#include "engine/sdma/thunk.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef struct entry {
    const char *name;
    size_t offset;
    int optional;
} entry_t;

static const entry_t entries[] = {
    {"hsaKmtOpenKFD", offsetof(dma_thunk_t, open), 0},
    {"hsaKmtCloseKFD", offsetof(dma_thunk_t, close), 0},
    {"hsaKmtAllocMemory", offsetof(dma_thunk_t, alloc), 0},
    {"hsaKmtFreeMemory", offsetof(dma_thunk_t, free), 0},
    {"hsaKmtMapMemoryToGPU", offsetof(dma_thunk_t, map), 0},
    {"hsaKmtUnmapMemoryToGPU", offsetof(dma_thunk_t, unmap), 0},
    {"hsaKmtCreateQueue", offsetof(dma_thunk_t, create_queue), 0},
    {"hsaKmtDestroyQueue", offsetof(dma_thunk_t, destroy_queue), 0},
    {"hsaKmtCreateQueueExt", offsetof(dma_thunk_t, create_queue_ext), 1},
};

dma_status_t dma_thunk_find(dma_thunk_t *thunk, const char **reason)
{
    void *library = dlopen("libhsakmt.so.1", RTLD_NOW | RTLD_NOLOAD);

    if (!library) {
        *reason = "ROCr has no libhsakmt of its own in this process";
        return DMA_UNSUPPORTED;
    }
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        void *symbol = dlsym(library, entries[i].name);

        if (!symbol && !entries[i].optional) {
            *reason = "this version of libhsakmt lacks a function";
            dlclose(library);
            return DMA_UNSUPPORTED;
        }
        memcpy((char *)thunk + entries[i].offset, &symbol, sizeof(symbol));
    }
    /* The reference to the library is kept: its functions are used until the process ends. */
    return DMA_OK;
}
