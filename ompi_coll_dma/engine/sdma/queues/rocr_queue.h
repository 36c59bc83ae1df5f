/*
 * ROCr's public interface for DMA queues, from version 1.31 of its AMD extensions on. It is declared here, because few systems
 * have a header that is new enough.
 *
 *     create    A queue on the engine with a given number. The number counts all engines of the GPU: host-facing ones
 *               first, then those of links. ROCr owns the ring, the pointers and the doorbell.
 *     counters  Read and write pointer and doorbell count bytes and do not wrap, as in ring.h. Room in the ring, padding and
 *               the order of the stores are ours.
 *     doorbell  A word of hardware behind the queue's doorbell signal. A queue without one, as a profiler may make it, can
 *               be started by calls of ROCr only, and is not used.
 *     error     ROCr may call back when the queue has failed. Versions differ: some never do.
 *     version   1.26 made such queues, but their pointers were ROCr's own copies. From 1.31 on they are the hardware's.
 */
#ifndef DMA_SDMA_ROCR_QUEUE_H
#define DMA_SDMA_ROCR_QUEUE_H

#include <stdint.h>

#include "dma/status.h"
#include "engine/sdma/queues/rocr.h"

/* Status codes of hsa_amd_queue_create. */
#define DMA_ROCR_INVALID_ARGUMENT 0x1001u /* among other things: there is no such engine */
#define DMA_ROCR_INVALID_CREATION 0x1002u /* the kernel driver cannot make queues on a given engine */
#define DMA_ROCR_OUT_OF_RESOURCES 0x1008u

#define DMA_ROCR_SYSTEM_EXT_MAJOR 0x207u /* 16 bits each */
#define DMA_ROCR_SYSTEM_EXT_MINOR 0x208u
#define DMA_ROCR_QUEUES_MAJOR     1u
#define DMA_ROCR_QUEUES_MINOR     31u

#define DMA_ROCR_QUEUE_ENGINE_ID 14u /* 32 bits */
#define DMA_ROCR_QUEUE_READ_PTR  15u /* 64 bits: an address */
#define DMA_ROCR_QUEUE_WRITE_PTR 16u /* the same */

#define DMA_ROCR_QUEUE_VERSION         1u
#define DMA_ROCR_QUEUE_SDMA            1u
#define DMA_ROCR_QUEUE_PRIORITY_NORMAL 1u

#define DMA_ROCR_SIGNAL_DOORBELL (-1)

/* The begin of a signal. */
typedef struct dma_rocr_signal {
    int64_t kind;
    uint64_t *doorbell; /* if it is one of hardware */
} dma_rocr_signal_t;

typedef struct dma_rocr_queue {
    uint32_t type;
    uint32_t features;
    void *ring;
    dma_rocr_signal_t *doorbell;
    uint32_t bytes;
    uint32_t reserved;
    uint64_t id;
} dma_rocr_queue_t;

typedef void dma_rocr_on_error_t(uint32_t status, dma_rocr_queue_t *queue, void *on_error_data);

/* All reserved members are 0. */
typedef struct dma_rocr_queue_desc {
    uint16_t version;
    uint16_t flags; /* 0: in host memory */
    uint8_t engine_type;
    uint8_t reserved_head[3];
    uint32_t bytes; /* a power of two */
    uint32_t priority;
    dma_rocr_on_error_t *on_error;
    void *on_error_data;
    dma_rocr_queue_t *queue; /* set by ROCr */
    uint32_t engine;
    uint32_t reserved_engine[7];
    uint32_t traffic_class;
    uint8_t reserved[20];
} dma_rocr_queue_desc_t;

_Static_assert(sizeof(dma_rocr_queue_desc_t) == 96 && sizeof(dma_rocr_queue_t) == 40, "as ROCr has them");

typedef struct dma_rocr_queues {
    uint32_t (*system_info)(uint32_t what, void *value);
    uint32_t (*create)(dma_rocr_handle_t agent, dma_rocr_queue_desc_t *descs, uint32_t n);
    uint32_t (*info)(dma_rocr_queue_t *queue, uint32_t what, void *value);
    uint32_t (*destroy)(dma_rocr_queue_t *queue);
} dma_rocr_queues_t;

/* Finds the functions in the loaded library. DMA_UNSUPPORTED: it is not loaded or too old; *reason says which. */
dma_status_t dma_rocr_queues_find(dma_rocr_queues_t *queues, const char **reason);

#endif
