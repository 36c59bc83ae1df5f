/* What the files of the CUDA table share. */
#ifndef DMA_GPU_CUDA_H
#define DMA_GPU_CUDA_H

#include "gpu/cuda/api.h"
#include "gpu/internal.h"

/* Written once, by dma_gpu_cuda_open, before the table is handed out. */
extern cuda_calls_t dma_cuda;

/* DMA_OK for success; else describes the error. */
dma_status_t dma_cuda_status(cuda_error_t error, const char *call);

/* The same where a refusal means "try the next way". */
dma_status_t dma_cuda_try_status(cuda_error_t error, const char *call);

#define DMA_CUDA(call, ...)     dma_cuda_status(dma_cuda.call(__VA_ARGS__), #call)
#define DMA_CUDA_TRY(call, ...) dma_cuda_try_status(dma_cuda.call(__VA_ARGS__), #call)

dma_status_t dma_cuda_enter(int device, dma_gpu_scope_t *scope);
void dma_cuda_leave(dma_gpu_scope_t *scope);
/* Of the two what concerns captures: without a device. */
void dma_cuda_capture_relax(dma_gpu_scope_t *scope);
void dma_cuda_capture_restore(dma_gpu_scope_t *scope);

/* The parts of the table. */
dma_status_t dma_cuda_query(uint64_t addr, dma_gpu_memory_t *memory);
void dma_cuda_fill_memory(dma_gpu_runtime_t *table);
void dma_cuda_fill_streams(dma_gpu_runtime_t *table);

/* The private stream of a device went with its context, or is to be given back. */
void dma_cuda_forget_private_stream(int device);
void dma_cuda_destroy_private_stream(int device);

#endif
