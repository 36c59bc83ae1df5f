/* Internal functions of the HIP table. */
#ifndef DMA_GPU_HIP_H
#define DMA_GPU_HIP_H

#include <stdatomic.h>

#include "gpu/hip/api.h"
#include "gpu/internal.h"
#include "gpu/reset.h"

/* Written once by dma_gpu_hip_open, before the table is returned. */
extern hip_calls_t dma_hip;
extern hsa_calls_t dma_hsa;
extern hip_error_string_t dma_hip_error_string;

/* Whether the application has initialized HIP. Asks ROCr, because the first HIP call would initialize it. */
bool dma_hip_is_initialized(void);

/* Converts a result to a status, clears HIP's last error, and records the text of an error for dma_gpu_error. */
dma_status_t dma_hip_status(hip_error_t error, const char *call);

/* The same for calls that may be refused: an error becomes DMA_UNSUPPORTED, and the caller tries the next way. */
dma_status_t dma_hip_try_status(hip_error_t error, const char *call);

#define DMA_HIP(call, ...)     dma_hip_status(dma_hip.call(__VA_ARGS__), #call)
#define DMA_HIP_TRY(call, ...) dma_hip_try_status(dma_hip.call(__VA_ARGS__), #call)

/* Members of the table. */
dma_status_t dma_hip_enter(int device, dma_gpu_scope_t *scope);
dma_status_t dma_hip_enter_to_release(int device, dma_gpu_scope_t *scope);
void dma_hip_leave(dma_gpu_scope_t *scope);

/* Detects resets of devices. A member of the table: has one been detected? */
extern dma_gpu_guard_t dma_hip_guard;
bool dma_hip_is_lost(int device);

/* The stream handle of the table. */
struct dma_gpu_stream {
    struct ihipStream_t *hip;
    int device;
    atomic_bool used; /* since the last dma_hip_quiesce */
    bool pending;     /* used by dma_hip_quiesce only */
    struct dma_gpu_stream *next;
};

dma_gpu_stream_t *dma_hip_stream_add(struct ihipStream_t *made, int device);
/* Returns the HIP stream, which the caller destroys. */
struct ihipStream_t *dma_hip_stream_remove(dma_gpu_stream_t *stream);

/*
 * Waits until HIP has released all memory of the commands on our streams, for those commands that are known to be
 * complete (by stream_query, an event, or a word in memory). DMA_AGAIN: HIP has not released it after a second.
 */
dma_status_t dma_hip_quiesce(void);

/* Parts of the table. */
dma_status_t dma_hip_query(uint64_t addr, dma_gpu_memory_t *memory);
void dma_hip_fill_memory(dma_gpu_runtime_t *table);
void dma_hip_fill_streams(dma_gpu_runtime_t *table);

#endif
