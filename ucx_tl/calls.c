/* Loads UCX and looks up its functions: see calls.h. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "calls.h"

#define LIBRARY "libucp.so.0"

dma_ucx_calls_t dma_ucx_api;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool loaded;

static void *open_library(void)
{
    void *library = NULL;

#ifdef DMA_UCX_LIBDIR
    library = dlopen(DMA_UCX_LIBDIR "/" LIBRARY, RTLD_NOW);
#endif
    return library ? library : dlopen(LIBRARY, RTLD_NOW);
}

static dma_status_t load(const char **why)
{
    static const struct {
        const char *name;
        size_t at;
    } calls[] = {
#define DMA_UCX_CALL(name) {#name, offsetof(dma_ucx_calls_t, name)},
        DMA_UCX_CALLS(DMA_UCX_CALL)
#undef DMA_UCX_CALL
    };
    void *library = open_library();

    for (size_t i = 0; library && i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *call = dlsym(library, calls[i].name);

        if (!call) {
            library = NULL; /* stays loaded: see calls.h */
            break;
        }
        memcpy((char *)&dma_ucx_api + calls[i].at, &call, sizeof(call));
    }
    if (!library) {
        *why = dlerror();
        return DMA_UNSUPPORTED;
    }
    return DMA_OK;
}

dma_status_t dma_ucx_load(const char **why)
{
    dma_status_t status = DMA_OK;

    pthread_mutex_lock(&lock);
    if (!loaded) {
        status = load(why);
        loaded = status == DMA_OK;
    }
    pthread_mutex_unlock(&lock);
    return status;
}
