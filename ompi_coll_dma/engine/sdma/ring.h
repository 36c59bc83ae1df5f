/*
 * The ring of an SDMA queue: where packets go, and how the engine learns of them.
 *
 *      ring memory, a power of two                      words of 64 bits: bytes since the queue was made, never wrapped
 *   +------+---------------+-----------------+-----+
 *   | free | the engine's  | built, not told | free|   read pointer   <= published <= reserved < read pointer + size
 *   +------+---------------+-----------------+-----+   ^ engine        ^ us, told   ^ us
 *          ^ read          ^ published       ^ reserved
 *
 * A counter's place in the ring is its value modulo the size. Rules of the hardware:
 * - reserved stays strictly below read + size: the engine cannot tell a full ring from an empty one.
 * - A packet does not straddle the end of the ring: what is left there is filled with zero dwords, each a nop.
 * - The write pointer in memory is never ahead of what is built, nor behind the doorbell: the engine may look at it
 *   without a doorbell whenever its queue is mapped again.
 *
 * Packets are built in groups: dma_ring_reserve gives room for all dwords of a group, contiguous, or nothing of it.
 * Several groups may be reserved before one publish (one doorbell), and published ones need not be consumed before the
 * next are reserved. What was reserved and not published can be dropped.
 *
 * Consumed means fetched: the read pointer passes a copy before it has landed. Only a fence behind it says that.
 *
 * A ring belongs to one thread at a time; its owner holds the lock.
 */
#ifndef DMA_SDMA_RING_H
#define DMA_SDMA_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "dma/status.h"

/* Memory of a queue, made by whoever made the queue, who keeps it. */
typedef struct dma_ring_memory {
    uint32_t *ring;
    uint64_t bytes;      /* of the ring: a power of two, DMA_RING_MIN or more */
    uint64_t *read_ptr;  /* written by the engine */
    uint64_t *write_ptr; /* written by us */
    uint64_t *doorbell;  /* written by us: a register of the GPU */
} dma_ring_memory_t;

#define DMA_RING_MIN 4096

typedef struct dma_ring {
    dma_ring_memory_t mem;
    uint64_t read;      /* as last seen */
    uint64_t published; /* what the engine may fetch */
    uint64_t reserved;  /* what has been given to builders */
    struct {
        uint64_t packets;   /* published */
        uint64_t doorbells; /* rung */
        uint64_t pads;      /* times the end of the ring was filled */
        uint64_t full;      /* times there was no room */
    } count;
    uint64_t unpublished_packets;
} dma_ring_t;

/* Takes a queue that is idle, its counters equal. DMA_ERR_ARG for memory that no queue has. */
dma_status_t dma_ring_init(dma_ring_t *ring, const dma_ring_memory_t *mem);

/* Room for a group of that many packets and dwords at *p, to be filled entirely before the publish. DMA_AGAIN: no room
 * until the engine has consumed more of what was published; DMA_ERR_ARG: more than half of the ring, for which there
 * may never be room; DMA_ERR_ENGINE: the read pointer is where no working queue has it. */
dma_status_t dma_ring_reserve(dma_ring_t *ring, uint32_t dwords, uint32_t packets, uint32_t **p);
/* Forgets all that was reserved since the last publish. */
void dma_ring_drop(dma_ring_t *ring);
/* Tells the engine of all that was reserved. Returns the position behind it, for dma_ring_consumed. */
uint64_t dma_ring_publish(dma_ring_t *ring);

/* DMA_OK when the engine has fetched everything up to a position, else DMA_AGAIN, or DMA_ERR_ENGINE as above. */
dma_status_t dma_ring_consumed(dma_ring_t *ring, uint64_t position);
/* The same for all that was published. */
dma_status_t dma_ring_idle(dma_ring_t *ring);

#endif
