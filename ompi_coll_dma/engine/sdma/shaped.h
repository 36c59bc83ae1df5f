/*
 * Copies between blocks with shapes (gpu/shape.h), as packets.
 *
 * A copy is cut into rectangles, and a rectangle into strided copies (packet_rect.c) of as many rows as one may have:
 *
 *     the distance of rows is no multiple of 4   every second row, then the others; or every fourth, ...
 *     rows are too long or too far apart         a plain copy for each row
 *
 * Where the two shapes would make too many rectangles, the copy goes through memory in between, piece by piece, with a
 * fence and a poll between the steps: gathered into `temp`, wait, scattered from there, wait. The ring may be full between
 * any two of these, and programs of others go on in the queue then: so the memory is the program's, not the queue's.
 */
#ifndef DMA_SDMA_SHAPED_H
#define DMA_SDMA_SHAPED_H

#include "engine/sdma/queue.h"
#include "gpu/shape.h"

#define DMA_SHAPED_TEMP (UINT64_C(2) << 20)

/* Where a copy stands. */
typedef struct dma_shaped {
    dma_location_t dst, src;
    uint64_t bytes;
    bool by_temp;
    uint64_t temp; /* DMA_SHAPED_TEMP bytes of device memory of its own, or 0: of all copies of the program */
    unsigned step; /* by_temp: of a turn; */
    bool begun;    /* it is */
    uint64_t done; /* by_temp: bytes of turns that are over */
    dma_cut_t cut;
    bool has_rect; /* the next two are about it */
    dma_rect_t rect;
    uint64_t lane, row; /* how much of it is done: of a plain copy for each row, `lane` are bytes of a row */
} dma_shaped_t;

bool dma_shaped_by_temp(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* by_temp: `temp` is there. */
void dma_shaped_begin(dma_shaped_t *s, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* DMA_OK: all of it is in the ring. DMA_AGAIN: the ring is full. */
dma_status_t dma_shaped_put(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue);

/* What follows on the queue sees what came before: a fence and a poll. Returns the dwords. */
#define DMA_DRAIN_DWORDS  10
#define DMA_DRAIN_PACKETS 2
#define DMA_DRAIN_INTERVAL                                                                                             \
    4 /* clocks between two looks: such a poll waits for copies of the queue itself, microseconds */
uint32_t dma_drain(uint32_t *p, dma_queue_t *queue);

#endif
