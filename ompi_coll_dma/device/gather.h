/*
 * Packing by the processor of irregular datatypes in device memory, piece by piece (slot_copies.c).
 *
 * Copies of short rows cost more than to copy everything from the first to the last byte of a piece, gaps included, at the speed of
 * the link. That goes into pinned memory in two halves. While the device fills one, the processor packs rows out of the other:
 *
 *     device memory  --one copy-->  | half 0 | half 1 |  --processor, row by row-->  contiguous memory
 *
 * A piece whose rows are further apart than a half is large is not packed so.
 */
#ifndef DMA_DEVICE_GATHER_H
#define DMA_DEVICE_GATHER_H

#include "core/comm.h"
#include "device/pins.h"
#include "device/rows.h"

/* Bytes of one block. */
typedef struct dma_gather_part {
    dma_place_t at;
    uint64_t bytes;
} dma_gather_part_t;

typedef struct dma_gather_half {
    dma_gather_part_t part; /* that is in it or on the way to it; 0 bytes: none */
    uint64_t first;         /* where the user has its first byte */
} dma_gather_half_t;

typedef struct dma_gather {
    dma_lease_t *pin;
    unsigned next; /* half for the next part */
    dma_gather_half_t halves[2];
} dma_gather_t;

/* False: there is no pinned memory. */
bool dma_gather_begin(dma_gather_t *gather, dma_comm_t *comm, const dma_gpu_runtime_t *rt, int device);
/* Packs a part into `to`, and has the device copy the next one meanwhile (0 bytes: there is none). In scope. DMA_UNSUPPORTED: the
 * part has to be copied in another way. */
dma_status_t dma_gather_pack(dma_gather_t *gather, const dma_comm_t *comm, const dma_gather_part_t *part,
                             const dma_gather_part_t *next, uint64_t to);
void dma_gather_end(dma_gather_t *gather, dma_proc_t *proc);

#endif
