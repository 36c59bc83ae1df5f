/*
 * The thunk: AMD's library between user programs and the kernel driver, libhsakmt.
 *
 * The functions that are used are declared here, with layouts that all versions share, and found at run time in the
 * instance that the application's ROCr uses. The library is never loaded here, because two instances of different
 * versions in one process corrupt each other's kernel state. From ROCm 6.3 on the thunk is part of ROCr and exports
 * nothing. Then there is no thunk, and another queue provider is used.
 *
 * The thunk counts how often it was opened: ROCr holds one reference, this engine adds one and releases it at the end.
 * The thunk's topology snapshot has no such count, and releasing it would release ROCr's snapshot. So this engine does
 * not use it.
 */
#ifndef DMA_SDMA_THUNK_H
#define DMA_SDMA_THUNK_H

#include <stdint.h>

#include "dma/reason.h"
#include "dma/status.h"

#define DMA_THUNK_SUCCESS        0u
#define DMA_THUNK_ALREADY_OPENED 22u

/* Types of queues. No version that exports its functions has queues on a given engine. */
#define DMA_THUNK_QUEUE_SDMA      2u
#define DMA_THUNK_QUEUE_SDMA_XGMI 5u

/* The enumeration has 64 bits: its values include negative ones and 2^32 - 1. */
#define DMA_THUNK_PRIORITY_MAXIMUM INT64_C(3)

/* Flags of memory allocations. */
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
    volatile int64_t *error; /* not 0: the queue has failed; may be NULL */
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
} dma_thunk_t;

/* Finds the functions in the loaded library. DMA_UNSUPPORTED: it is not loaded or too old; *reason says which. */
dma_status_t dma_thunk_find(dma_thunk_t *thunk, const char **reason);

#endif
