/* See gpu_start.h. */
#include "tools/gpu_start.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "gpu/internal.h"

/* The first library of a list that can be loaded, or NULL. */
static void *load(const char *const *names)
{
    void *library = NULL;

    for (; *names && !library; names++) {
        library = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
    }
    return library;
}

/* Appends "hipInit fails (error 100)". */
static void add_error(char *why, size_t room, const char *call, unsigned error)
{
    size_t have = strlen(why);

    snprintf(why + have, room - have, "%s%s fails (error %u)", have ? "; " : "", call, error);
}

const char *gpu_start(const char *runtime, const dma_gpu_runtime_t **rt)
{
    static const struct {
        const char *name;
        const char *const *libraries;
        const char *init;
    } vendors[] = {{"hip", dma_gpu_hip_libraries, "hipInit"}, {"cuda", dma_gpu_cuda_libraries, "cuInit"}};
    static char why[256];

    why[0] = '\0';
    for (size_t i = 0; i < sizeof(vendors) / sizeof(vendors[0]); i++) {
        bool wanted = !runtime || !strcmp(runtime, vendors[i].name);
        void *library = wanted ? load(vendors[i].libraries) : NULL;
        unsigned (*init)(unsigned) = NULL, error;
        int count = 0;

        if (!library) {
            continue;
        }
        *(void **)&init = dlsym(library, vendors[i].init);
        if ((error = init ? init(0) : 999)) {
            add_error(why, sizeof(why), vendors[i].init, error);
            continue;
        }
        *rt = dma_gpu_runtime_loaded();
        if (*rt && (*rt)->device_count(&count) == DMA_OK && count > 0) {
            return NULL;
        }
        snprintf(why, sizeof(why), "%s", *rt ? "the runtime shows no GPU to this process" : dma_gpu_error());
    }
    return why[0] ? why : "neither libamdhip64 nor libcuda can be loaded: set LD_LIBRARY_PATH if it is there";
}
