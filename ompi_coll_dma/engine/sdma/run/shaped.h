/*
 * Copies between blocks with shapes (gpu/shape.h), as packets.
 *
 * A copy is cut into rectangles, and a rectangle into strided copies (packet_rect.c) with as many rows as one packet
 * allows. There are two exceptions:
 *
 *     the pitch is not a multiple of 4           every second row, then the others; or every fourth row, and so on
 *     rows are too long or too far apart         a plain copy for each row
 *
 * If two shapes would make too many rectangles, the copy goes through temporary memory in turns: gather a piece into `temp`,
 * drain, scatter the piece from `temp`, drain. The ring may be full between any two of these steps, and then programs of
 * other users continue in the queue. So the temporary memory belongs to the program and not to the queue.
 */
#ifndef DMA_SDMA_SHAPED_H
#define DMA_SDMA_SHAPED_H

#include "engine/sdma/queues/queue.h"
#include "gpu/shape.h"

#define DMA_SHAPED_TEMP (UINT64_C(2) << 20) /* a copy of this size takes far longer than a drain */

/* Writes a drain: a fence and a poll for it, so that the packets behind it see the results of the packets in front
 * of it. Returns the number of dwords. Not without DMA_GEN_POLL. */
#define DMA_DRAIN_DWORDS  10
#define DMA_DRAIN_PACKETS 2
/* Clocks between two reads of the poll in a drain: few, because the poll waits for copies of its own queue, which take
 * microseconds. */
#define DMA_DRAIN_INTERVAL 4
uint32_t dma_drain(uint32_t *p, dma_queue_t *queue);

/* A drain that may be by the CPU; zero at first. */
typedef struct dma_drain {
    bool begun; /* the fence is in the ring */
    uint32_t step;
} dma_drain_t;

/* DMA_OK: packets that are built from now on see the results of what is in the ring. DMA_AGAIN: publish, and call again.
 * With DMA_GEN_POLL the queue waits, and DMA_AGAIN means that the ring is full. Without it, DMA_OK comes when the CPU has
 * seen the fence. Packets of other users of the queue may come in between. */
dma_status_t dma_drain_put(dma_drain_t *drain, const dma_gen_t *gen, dma_queue_t *queue);

/* The state of a copy. */
typedef struct dma_shaped {
    dma_location_t dst, src;
    uint64_t bytes;
    bool by_temp;
    uint64_t temp; /* DMA_SHAPED_TEMP bytes of device memory, or 0; shared by all copies of the program */
    unsigned step; /* by_temp: the current step of a turn */
    bool begun;    /* the current step has begun */
    uint64_t done; /* by_temp: bytes of completed turns */
    dma_drain_t drain;
    dma_cut_t cut;
    bool has_rect; /* the members below describe a rectangle in progress */
    dma_rect_t rect;
    uint64_t lane, row; /* the position in the rectangle; with a plain copy per row, `lane` counts bytes of the row */
} dma_shaped_t;

bool dma_shaped_by_temp(const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* If dma_shaped_by_temp is true for this copy, `temp` must be set. */
void dma_shaped_begin(dma_shaped_t *s, const dma_location_t *dst, const dma_location_t *src, uint64_t bytes);
/* DMA_OK: the whole copy is in the ring. DMA_AGAIN: the ring is full. */
dma_status_t dma_shaped_put(dma_shaped_t *s, const dma_gen_t *gen, dma_queue_t *queue);

#endif
