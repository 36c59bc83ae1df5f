/* The calls of HIP and CUDA; see runtime.h. */
#include "runtime.h"

#include <mpix_dma.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "gpu/base.h"

#define MPIX_HIP(name, hip, cuda, required, ...)  {hip, hip && required},
#define MPIX_CUDA(name, hip, cuda, required, ...) {cuda, cuda && required},
static const dma_gpu_symbol_t hip_symbols[] = {MPIX_CALLS(MPIX_HIP)}, cuda_symbols[] = {MPIX_CALLS(MPIX_CUDA)};

enum { CALLS = sizeof(mpix_runtime_t) / sizeof(void *) };

static struct {
    const char *const *libraries;
    const dma_gpu_symbol_t *symbols;
    mpix_runtime_t calls;
    bool found;
} runtimes[] = {[MPIX_QUEUE_HIP] = {.libraries = dma_gpu_hip_libraries, .symbols = hip_symbols},
                [MPIX_QUEUE_CUDA] = {.libraries = dma_gpu_cuda_libraries, .symbols = cuda_symbols}};

const mpix_runtime_t *mpix_runtime(int type)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool found;

    pthread_mutex_lock(&lock);
    if (!runtimes[type].found) {
        void *library = dma_gpu_find_library(runtimes[type].libraries);

        runtimes[type].found =
            library && dma_gpu_find_symbols(library, runtimes[type].symbols, CALLS, &runtimes[type].calls);
    }
    found = runtimes[type].found;
    pthread_mutex_unlock(&lock);
    return found ? &runtimes[type].calls : NULL;
}

void mpix_tell(const char *what, const char *why)
{
    const char *verbose = getenv("MPIX_DMA_VERBOSE");

    if (verbose && *verbose && *verbose != '0') {
        fprintf(stderr, "libmpix_dma: %s, because %s\n", what, why);
    }
}
