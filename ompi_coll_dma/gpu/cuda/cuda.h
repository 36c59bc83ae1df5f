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
void dma_cuda_release(void);
/* The part of `enter` and `leave` that concerns stream capture; needs no device. */
void dma_cuda_capture_relax(dma_gpu_scope_t *scope);
void dma_cuda_capture_restore(dma_gpu_scope_t *scope);
bool dma_cuda_context_is_active(int device);
/* A reset of the device has been detected, or may have happened. */
void dma_cuda_context_forget(int device);
void dma_cuda_context_suspect(void);

/* ---- reset.c ---- */

/* Detects resets of devices. A member of the table: how many it has detected. */
extern dma_gpu_guard_t dma_cuda_guard;
unsigned dma_cuda_resets(int device);
/* The origin of an object that is about to be made in the current context. */
dma_status_t dma_cuda_origin(dma_gpu_origin_t *origin);

/* A call with an object, if a reset has not destroyed it. */
#define DMA_CUDA_WITH(object, call, ...)                                                                               \
    (dma_gpu_guard_has_lost(&dma_cuda_guard, (object)->origin) ? dma_gpu_guard_error((object)->origin)                 \
                                                               : DMA_CUDA(call, __VA_ARGS__))

/* ---- query.c ---- */

/* Attributes of an address, also for a thread without a context. */
cuda_error_t dma_cuda_get_attributes(unsigned n, cuda_enum_t *names, void **data, uint64_t addr);

/* ---- the others ---- */

/* What a dma_gpu_stream_t of this runtime is. */
typedef struct dma_cuda_stream {
    struct CUstream_st *cuda;
    dma_gpu_origin_t origin;
} dma_cuda_stream_t;

static inline const dma_cuda_stream_t *dma_cuda_stream(const dma_gpu_stream_t *stream)
{
    return (const dma_cuda_stream_t *)stream;
}

/* Parts of the table. */
void dma_cuda_fill_queries(dma_gpu_runtime_t *table);
void dma_cuda_fill_memory(dma_gpu_runtime_t *table);
void dma_cuda_fill_mapped(dma_gpu_runtime_t *table);
/* A member of the table, in mapped.c. */
dma_status_t dma_cuda_mapping(uint64_t addr, dma_gpu_mapping_t *mapping);
void dma_cuda_fill_streams(dma_gpu_runtime_t *table);

void dma_cuda_destroy_private_stream(int device);

/* memory.c: memory that has been made in the current context, which is known by its address from now on. */
dma_status_t dma_cuda_add_memory(uint64_t addr);

#endif
