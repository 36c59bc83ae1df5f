/* Helpers of all code that calls a vendor library: finding the loaded library and its symbols, and recording errors. */
#ifndef DMA_GPU_INTERNAL_H
#define DMA_GPU_INTERNAL_H

#include "gpu/runtime.h"

/*
 * Devices of a process for which the tables keep state. Calls for a device with a higher ordinal return DMA_UNSUPPORTED.
 * The largest node known has 64 visible devices: eight GPUs in eight partitions each.
 */
#define DMA_GPU_MAX_DEVICES 64

typedef struct dma_gpu_symbol {
    const char *name;
    bool required;
} dma_gpu_symbol_t;

/* Stores the text for dma_gpu_error and returns `status`. */
dma_status_t dma_gpu_fail(dma_status_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The names of the vendors' libraries, the newest first; each list ends with NULL. */
extern const char *const dma_gpu_hip_libraries[], *const dma_gpu_cuda_libraries[];

/*
 * Returns a handle of the first of these libraries that the process has loaded, or NULL. `sonames` ends with NULL. The
 * handle holds a reference, so the library stays loaded.
 */
void *dma_gpu_find_library(const char *const *sonames);

/*
 * Fills `calls`, which must consist of n function pointers and nothing else, with the symbols of the library. Returns
 * false and sets dma_gpu_error if a required symbol is missing. Optional symbols that are missing become NULL.
 */
bool dma_gpu_find_symbols(void *library, const dma_gpu_symbol_t *symbols, size_t n, void *calls);

/* Return the vendor's table, or NULL if that runtime is not loaded or not usable. The caller serializes the calls. */
const dma_gpu_runtime_t *dma_gpu_hip_open(void);
const dma_gpu_runtime_t *dma_gpu_cuda_open(void);

#endif
