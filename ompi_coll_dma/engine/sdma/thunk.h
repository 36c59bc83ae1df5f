/*
 * The thunk: AMD's library between user programs and the kernel driver, libhsakmt.
 *
 * What we use of it is declared here, in layouts that all its versions share, and found at run time: in the very instance
 * that the application's ROCr uses, never in one that we would load ourselves. Two instances of different versions in one
 * process fight over the kernel's state. ROCm from 6.3 on has the thunk inside ROCr and exports nothing: there is no
 * thunk then, and other engines serve.
 *
 * Opening counts: ROCr holds the library open, we add one and take it away at the end. Of the topology snapshot we keep
 * away altogether: it is not counted, and releasing it would pull it from under ROCr.
 */
#ifndef DMA_SDMA_THUNK_H
#define DMA_SDMA_THUNK_H

#include <stdint.h>

#include "dma/status.h"

#define DMA_THUNK_SUCCESS        0u
#define DMA_THUNK_ALREADY_OPENED 22u

/* Kinds of queues. By engine: thunks that have create_queue_ext, kernels from KFD 1.17 on. */
#define DMA_THUNK_QUEUE_SDMA        2u
#define DMA_THUNK_QUEUE_SDMA_XGMI   5u
#define DMA_THUNK_QUEUE_SDMA_BY_ENG 6u

#define DMA_THUNK_PRIORITY_MAXIMUM INT64_C(3) /* the enumeration is 64 bits wide: it has negative values and 2^32 - 1 */

/* Flags of memory. */
#define DMA_THUNK_NON_PAGED      (1u << 0)
#define DMA_THUNK_HOST_ACCESS    (1u << 6)
#define DMA_THUNK_EXECUTE_ACCESS (1u << 12)
#define DMA_THUNK_UNCACHED       (1u << 17)

typedef struct dma_thunk_flags {
    uint32_t value;
} dma_thunk_flags_t;

typedef struct dma_thunk_queue {
    uint64_t id;
    uint64_t *doorbell;
    uint64_t *write_ptr;
    uint64_t *read_ptr;
    volatile int64_t *error; /* what has befallen the queue, or NULL */
} dma_thunk_queue_t;

typedef struct dma_thunk {
    uint32_t (*open)(void);
    uint32_t (*close)(void);
    uint32_t (*alloc)(uint32_t node, uint64_t bytes, dma_thunk_flags_t flags, void **addr);
    uint32_t (*free)(void *addr, uint64_t bytes);
    uint32_t (*map)(void *addr, uint64_t bytes, uint64_t *device_addr);
    uint32_t (*unmap)(void *addr);
    uint32_t (*create_queue)(uint32_t node, uint32_t type, uint32_t percent, int64_t priority, void *ring,
                             uint64_t bytes, void *event, dma_thunk_queue_t *queue);
    uint32_t (*destroy_queue)(uint64_t id);
    /* NULL: this version cannot name an engine */
    uint32_t (*create_queue_ext)(uint32_t node, uint32_t type, uint32_t percent, int64_t priority, uint32_t engine,
                                 void *ring, uint64_t bytes, void *event, dma_thunk_queue_t *queue);
} dma_thunk_t;

/* The instance that is loaded. DMA_UNSUPPORTED: none; *reason says why. */
dma_status_t dma_thunk_find(dma_thunk_t *thunk, const char **reason);

#endif
