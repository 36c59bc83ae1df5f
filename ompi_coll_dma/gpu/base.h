/*
 * What all code that calls a vendor's library needs: the text of errors, the libraries that the process has loaded, and the streams
 * for which some calls would wait.
 *
 * The library libmpix_dma is built with a copy of base.c of its own.
 */
#ifndef DMA_GPU_BASE_H
#define DMA_GPU_BASE_H

#include <stdbool.h>
#include <stddef.h>

#include "dma/status.h"

typedef struct dma_gpu_symbol {
    const char *name;
    bool required;
} dma_gpu_symbol_t;

/* The text of the last error on this thread: the call and how it failed; "" if there was none. Valid until the next
 * error. */
const char *dma_gpu_error(void);
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

/* May one of these libraries be loaded? One look at all libraries; it is part of the first call of each process. */
bool dma_gpu_may_be_loaded(void);

/* A stream of the application begins (more) or ends to have work that waits for other ranks. As long as there is one, `ipc_close`
 * and `host_unregister` of CUDA return DMA_AGAIN, and `free` frees later, because these calls would wait for the stream. */
void dma_gpu_note_waiting_stream(bool more);
/* May this thread make such a call? False: there is such a stream. Otherwise none begins before dma_gpu_end_blocking. */
bool dma_gpu_begin_blocking(void);
void dma_gpu_end_blocking(void);

#endif
