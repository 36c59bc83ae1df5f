/* Internal functions of the CUDA table. */
#ifndef DMA_GPU_CUDA_H
#define DMA_GPU_CUDA_H

#include "gpu/cuda/api.h"
#include "gpu/internal.h"
#include "gpu/reset.h"

/* Written once by dma_gpu_cuda_open, before the table is returned. */
extern cuda_calls_t dma_cuda;

/* Converts a result to a status, and records the text of an error for dma_gpu_error. */
dma_status_t dma_cuda_status(cuda_error_t error, const char *call);

/* The same for calls that may be refused: an error becomes DMA_UNSUPPORTED, and the caller tries the next way. */
dma_status_t dma_cuda_try_status(cuda_error_t error, const char *call);

#define DMA_CUDA(call, ...)     dma_cuda_status(dma_cuda.call(__VA_ARGS__), #call)
#define DMA_CUDA_TRY(call, ...) dma_cuda_try_status(dma_cuda.call(__VA_ARGS__), #call)

/* ---- context.c ---- */

/* Members of the table. */
dma_status_t dma_cuda_enter(int device, dma_gpu_scope_t *scope);
dma_status_t dma_cuda_enter_to_release(int device, dma_gpu_scope_t *scope);
void dma_cuda_leave(dma_gpu_scope_t *scope);
bool dma_cuda_is_lost(int device);
/* The part of `enter` and `leave` that concerns stream capture; needs no device. */
void dma_cuda_capture_relax(dma_gpu_scope_t *scope);
void dma_cuda_capture_restore(dma_gpu_scope_t *scope);
/* Detects resets of devices. */
extern dma_gpu_guard_t dma_cuda_guard;
/* Attributes of an address, also for a thread without a context. */
cuda_error_t dma_cuda_get_attributes(unsigned n, cuda_enum_t *names, void **data, uint64_t addr);

/* ---- the others ---- */

/* Parts of the table. */
void dma_cuda_fill_queries(dma_gpu_runtime_t *table);
void dma_cuda_fill_memory(dma_gpu_runtime_t *table);
void dma_cuda_fill_mapped(dma_gpu_runtime_t *table);
/* A member of the table, in mapped.c. */
dma_status_t dma_cuda_mapping(uint64_t addr, dma_gpu_mapping_t *mapping);
void dma_cuda_fill_streams(dma_gpu_runtime_t *table);
void dma_cuda_fill_graphs(dma_gpu_runtime_t *table);

#endif
