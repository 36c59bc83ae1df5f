/* What the tables of the runtimes share: finding a library and its calls, and saying what failed. */
#ifndef DMA_GPU_INTERNAL_H
#define DMA_GPU_INTERNAL_H

#include "gpu/runtime.h"

/* Devices of a process that we keep something for. One beyond is refused. */
#define DMA_GPU_MAX_DEVICES 64

typedef struct dma_gpu_symbol {
    const char *name;
    bool required;
} dma_gpu_symbol_t;

/* Remembers the text for dma_gpu_error and returns `status`. */
dma_status_t dma_gpu_fail(dma_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first of these libraries that is loaded, kept loaded from then on; NULL: none is. Ends with a NULL. */
void *dma_gpu_find_library(const char *const *sonames);

/*
 * Fills `calls`, which is nothing but n function pointers, with the symbols of the library. False, with dma_gpu_error
 * set, if a required one is missing; others are NULL then.
 */
bool dma_gpu_find_symbols(void *library, const dma_gpu_symbol_t *symbols, size_t n, void *calls);

/* The tables, or NULL if that runtime is not loaded or is not usable. Called under a lock. */
const dma_gpu_runtime_t *dma_gpu_hip_open(void);
const dma_gpu_runtime_t *dma_gpu_cuda_open(void);

#endif
