/* What the files of the HIP table share. */
#ifndef DMA_GPU_HIP_H
#define DMA_GPU_HIP_H

#include <stdatomic.h>

#include "gpu/hip_api.h"
#include "gpu/internal.h"

/* Written once, by dma_gpu_hip_open, before the table is handed out. */
extern hip_calls_t dma_hip;
extern hsa_calls_t dma_hsa;

/* Whether HIP can have devices and memory: asks ROCr, so that HIP is not initialised by the question. */
bool dma_hip_alive(void);

/* DMA_OK for success; else takes the error out of HIP's own memory of it and describes it. */
dma_status_t dma_hip_status(hip_error_t error, const char *call);

/* The same where a refusal means "try the next way". */
dma_status_t dma_hip_refusal(hip_error_t error, const char *call);

#define DMA_HIP(call, ...)     dma_hip_status(dma_hip.call(__VA_ARGS__), #call)
#define DMA_HIP_TRY(call, ...) dma_hip_refusal(dma_hip.call(__VA_ARGS__), #call)

/* Of the table's enter and leave what concerns captures: without a device. */
void dma_hip_relax(dma_gpu_scope_t *scope);
void dma_hip_restore(dma_gpu_scope_t *scope);

/* What the table gives out as a stream. */
struct dma_gpu_stream {
    struct ihipStream_t *hip;
    int device;
    atomic_bool used; /* since it was settled */
    struct dma_gpu_stream *next;
};

/* A device that is reset takes its streams along. This asks the one question that HIP answers about such a stream; with
 * others it crashes. */
bool dma_hip_gone(struct ihipStream_t *stream);

/* All streams of this process are known by the file that settles them. `made` is taken over. */
dma_gpu_stream_t *dma_hip_add_stream(struct ihipStream_t *made, int device);
struct ihipStream_t *dma_hip_drop_stream(dma_gpu_stream_t *stream);

/*
 * HIP has let go of all memory that what has been put on our streams moves, as far as that has been said to be done
 * (stream_query, an event, a word in memory). Waits for the rest of what is on the streams, 10 seconds at most: DMA_AGAIN.
 */
dma_status_t dma_hip_settle(void);

/* The parts of the table. */
dma_status_t dma_hip_query(uint64_t addr, dma_gpu_memory_t *memory);
void dma_hip_fill_memory(dma_gpu_runtime_t *table);
void dma_hip_fill_streams(dma_gpu_runtime_t *table);
void dma_hip_release_streams(void);

#endif
