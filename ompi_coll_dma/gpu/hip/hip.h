/* What the files of the HIP table share. */
#ifndef DMA_GPU_HIP_H
#define DMA_GPU_HIP_H

#include <stdatomic.h>

#include "gpu/hip/api.h"
#include "gpu/internal.h"

/* Written once, by dma_gpu_hip_open, before the table is handed out. */
extern hip_calls_t dma_hip;
extern hsa_calls_t dma_hsa;

/* Whether HIP can have devices and memory: asks ROCr, so that HIP is not initialised by the question. */
bool dma_hip_is_initialized(void);

/* DMA_OK for success; else takes the error out of HIP's own memory of it and describes it. */
dma_status_t dma_hip_status(hip_error_t error, const char *call);

/* The same where a refusal means "try the next way". */
dma_status_t dma_hip_try_status(hip_error_t error, const char *call);

#define DMA_HIP(call, ...)     dma_hip_status(dma_hip.call(__VA_ARGS__), #call)
#define DMA_HIP_TRY(call, ...) dma_hip_try_status(dma_hip.call(__VA_ARGS__), #call)

/* Of the table's enter and leave what concerns captures: without a device. */
void dma_hip_capture_relax(dma_gpu_scope_t *scope);
void dma_hip_capture_restore(dma_gpu_scope_t *scope);
/* The table's. */
dma_status_t dma_hip_enter(int device, dma_gpu_scope_t *scope);
void dma_hip_leave(dma_gpu_scope_t *scope);

/* How often a device has been reset, as far as has been seen. */
unsigned dma_hip_resets(int device);
/* Has any? Asks HIP once for each device that has something of ours. */
void dma_hip_detect_resets(void);
/* From now on resets of this device, which is current, are seen: dma_hip_resets. */
unsigned dma_hip_watch_resets(int device);
void dma_hip_unwatch_resets(void);

/* Memory of ours, or opened by us, on the current device; whether it still is, or went with a reset. */
dma_status_t dma_hip_memory_add(uint64_t addr);
bool dma_hip_memory_is_valid(uint64_t addr);
void dma_hip_memory_remove(uint64_t addr);

/* The number that HIP gives to an allocation once. False: it knows no memory there. */
bool dma_hip_buffer_id(uint64_t addr, uint64_t *id);

/* What the table gives out as a stream. */
struct dma_gpu_stream {
    struct ihipStream_t *hip;
    int device;
    unsigned resets;  /* of the device, when it was made */
    atomic_bool used; /* since dma_hip_quiesce has last looked */
    bool pending;     /* dma_hip_quiesce's own */
    struct dma_gpu_stream *next;
};

static inline bool dma_hip_stream_is_lost(const dma_gpu_stream_t *stream)
{
    return stream->resets != dma_hip_resets(stream->device);
}

dma_gpu_stream_t *dma_hip_stream_add(struct ihipStream_t *made, int device, unsigned resets);
/* What is to be destroyed, or NULL: a reset has done it. */
struct ihipStream_t *dma_hip_stream_remove(dma_gpu_stream_t *stream);

/*
 * DMA_OK: HIP has let go of all memory that what has been put on our streams moves, as far as that has been said to be done
 * (stream_query, an event, a word in memory). DMA_AGAIN: not yet; it was waited for, 50 ms at most.
 */
dma_status_t dma_hip_quiesce(void);
void dma_hip_quiesce_release(void);

/* The parts of the table. */
dma_status_t dma_hip_query(uint64_t addr, dma_gpu_memory_t *memory);
void dma_hip_fill_memory(dma_gpu_runtime_t *table);
void dma_hip_fill_streams(dma_gpu_runtime_t *table);
void dma_hip_release(void);

#endif
